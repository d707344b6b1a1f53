"""The records of cifar-train's runs as pandas data frames.

    import cifar_train
    run = cifar_train.load_run("runs/tutorial")
    run.steps.plot(x="step", y="loss")
    run.evaluations[["epoch", "split", "accuracy"]]
"""
import json
import os
from collections import namedtuple

Run = namedtuple("Run", ["steps", "epochs", "evaluations"])
Run.__doc__ = "Data frames with one row a record: steps, ends of epochs, evaluations. Columns are the records' keys."

# The columns of a run that has no record of an event yet.
_COLUMNS = {
    "step": ["step", "epoch", "loss", "lr", "grad_norm", "samples"],
    "epoch": ["step", "epoch", "loss"],
    "eval": ["step", "epoch", "split", "loss", "accuracy"],
}


def load_run(folder):
    """Reads metrics.jsonl of a run's folder into a Run. The run may still be going on.

    Throws ImportError without pandas, OSError for a file that cannot be read, ValueError for a damaged line.
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError("cifar_train.load_run() needs pandas: pip install pandas") from error
    rows = {event: [] for event in _COLUMNS}
    path = os.path.join(os.fspath(folder), "metrics.jsonl")
    with open(path, encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith("\n"):  # it is being written
                break
            try:
                record = json.loads(line)
                event = record.pop("event")
            except (ValueError, KeyError, AttributeError, TypeError):
                raise ValueError("%s:%d: this is no record of a run: %r" % (path, number, line[:80])) from None
            if event in rows:
                rows[event].append(record)
    return Run(*(pandas.DataFrame(rows[event], columns=None if rows[event] else _COLUMNS[event]) for event in _COLUMNS))
