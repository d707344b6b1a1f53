"""The command cifar-train: this process becomes the program."""
import os
import sys

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bundle", "bin", "cifar-train")


def main():
    try:
        os.execv(PROGRAM, ["cifar-train", *sys.argv[1:]])
    except OSError as error:
        sys.exit("error: %s cannot be started: %s: install the wheel again, in a folder whose programs may run"
                 % (PROGRAM, error.strerror))


if __name__ == "__main__":
    main()
