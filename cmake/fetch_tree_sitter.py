"""Fetch tree-sitter's runtime and its Python grammar (PyPI sdists) into a folder.

Usage: fetch_tree_sitter.py FOLDER. The sdists are asked for by name through
pip, which is told their SHA-256 and refuses anything else before it looks inside
(pip runs an sdist's setup.py to read its metadata). With KERNELOPT_SDISTS set to
a folder that holds them no network is used; the hash is checked all the same.

The runtime comes from the same release line as the grammar, since the
grammar's sdist leaves out the headers that it is compiled with, and Debian
12's runtime (0.20.7) has older ones.
"""
import hashlib
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

# package, version, folder in the sdist, SHA-256, what is taken from it
SDISTS = [
    ("tree-sitter", "0.23.2", "tree-sitter-0.23.2",
     "66bae8dd47f1fed7bdef816115146d3a41c39b5c482d7bad36d9ba1def088450",
     ("tree_sitter/core/lib", "LICENSE")),
    ("tree-sitter-python", "0.23.6", "tree_sitter_python-0.23.6",
     "354bfa0a2f9217431764a631516f85173e9711af2c13dbd796a8815acfe505d9",
     ("src", "LICENSE")),
]


def fetch(package: str, version: str, name: str, sha256: str,
          folder: pathlib.Path) -> pathlib.Path:
    """The sdist's path: a local copy, or what pip downloads into `folder`."""
    local = os.environ.get("KERNELOPT_SDISTS")
    if local:
        return pathlib.Path(local) / f"{name}.tar.gz"
    wanted = folder / f"{package}.txt"
    wanted.write_text(f"{package}=={version} --hash=sha256:{sha256}\n")
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
         "--no-deps", "--require-hashes", "--no-binary", package, "--dest", str(folder),
         "-r", str(wanted)],
        check=True, timeout=300)
    return folder / f"{name}.tar.gz"


def unpack(sdist: pathlib.Path, wanted: tuple[str, ...], target: pathlib.Path) -> None:
    """Writes the wanted folders and files below `target`."""
    with tarfile.open(sdist) as archive:
        for member in archive.getmembers():
            inside = pathlib.PurePosixPath(*pathlib.PurePosixPath(member.name).parts[1:])
            if not member.isfile() or ".." in inside.parts:
                continue
            if not any(inside.is_relative_to(w) for w in wanted):
                continue
            out = target / inside
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_bytes(archive.extractfile(member).read())


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        for package, version, name, sha256, wanted in SDISTS:
            sdist = fetch(package, version, name, sha256, pathlib.Path(folder))
            found = hashlib.sha256(sdist.read_bytes()).hexdigest()
            if found != sha256:
                print(f"{sdist}: its SHA-256 is {found}, wanted {sha256}; it is not used",
                      file=sys.stderr)
                return 1
            unpack(sdist, wanted, root / package)
    (root / "complete").touch()
    return 0


if __name__ == "__main__":
    sys.exit(main())
