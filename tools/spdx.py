#!/usr/bin/env python3
"""Writes an SPDX 2.3 document of a bundle's files: usage: spdx.py FOLDER OWNERS TIME, called by tools/bundle.sh.

OWNERS: a file with lines "package: /path" as dpkg-query -S prints them. A file of the bundle belongs to the package that
owns a file of its name, and has the licence licences/PACKAGE.txt; all others are this project's. TIME: seconds since
1970. The document goes to standard output.
"""
import datetime
import hashlib
import os
import re
import sys


def digest(path, kind):
    with open(path, "rb") as file:
        return hashlib.new(kind, file.read()).hexdigest()


def main():
    folder, owners_file, time = sys.argv[1:]
    name = os.path.basename(folder)
    owners = {}
    with open(owners_file) as lines:
        for line in lines:
            package, _, path = line.strip().partition(": ")
            owners[os.path.basename(path)] = package.split(":")[0]
    files = sorted(os.path.relpath(os.path.join(at, file), folder) for at, _, found in os.walk(folder) for file in found
                   if not os.path.islink(os.path.join(at, file)))
    sha1, sha256 = ({file: digest(os.path.join(folder, file), kind) for file in files} for kind in ("sha1", "sha256"))
    created = datetime.datetime.fromtimestamp(int(time), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    whole = hashlib.sha256("".join(sha256.values()).encode()).hexdigest()
    print("SPDXVersion: SPDX-2.3\nDataLicense: CC0-1.0\nSPDXID: SPDXRef-DOCUMENT\nDocumentName: %s\n"
          "DocumentNamespace: https://spdx.org/spdxdocs/%s-%s\nCreator: Tool: cifar-train tools/spdx.py\nCreated: %s\n"
          % (name, name, whole, created))
    print("PackageName: cifar-train\nSPDXID: SPDXRef-Package\nPackageDownloadLocation: NOASSERTION\nFilesAnalyzed: true\n"
          "PackageVerificationCode: %s\nPackageLicenseConcluded: NOASSERTION\nPackageLicenseDeclared: Apache-2.0\n"
          "PackageCopyrightText: NOASSERTION\nRelationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-Package\n"
          % hashlib.sha1("".join(sorted(sha1.values())).encode()).hexdigest())
    packages = set()
    for number, file in enumerate(files):
        licence = "Apache-2.0"
        if file.startswith("licences/"):
            licence = "NOASSERTION"
        elif package := owner_of(os.path.basename(file), owners):
            licence = reference(package)
            packages.add(package)
        print("FileName: ./%s\nSPDXID: SPDXRef-File-%d\nFileChecksum: SHA1: %s\nFileChecksum: SHA256: %s\nLicenseConcluded: %s\n"
              "LicenseInfoInFile: NOASSERTION\nFileCopyrightText: NOASSERTION\n"
              % (file, number, sha1[file], sha256[file], licence))
    for package in sorted(packages):
        print("LicenseID: %s\nLicenseName: %s\nExtractedText: <text>See licences/%s.txt</text>\n"
              % (reference(package), package, package))


def owner_of(name, owners):
    """A library is in the bundle under its short name: libz.so.1 for libz.so.1.2.13."""
    return owners.get(name) or next((owners[long] for long in owners if long.startswith(name + ".")), None)


def reference(package):
    return "LicenseRef-" + re.sub("[^A-Za-z0-9.-]", "-", package)


main()
