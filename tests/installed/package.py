"""Install the tutorial's package with pip into a new folder, and write packages of one module with entry points."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "chaired_debate"


def install_tutorial(folder: Path) -> Path:
    """Install the tutorial's package.

    Args:
        folder: the folder that gets the copied source and the installed package.

    Returns:
        The folder for ``PYTHONPATH``.
    """
    source, target = folder / "source", folder / "installed"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--target", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return target


def write_package(folder: Path, package: str, module: str = "", **entry_points: str) -> None:
    """Write a package into a folder, with metadata as if pip had installed it.

    Args:
        folder: the folder for ``PYTHONPATH``.
        package: the name of the package and of its module.
        module: the source code of the module.
        entry_points: for each kind (graph, source, benchmark), lines of the form ``name = value``.
    """
    about = folder / f"{package}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    groups = (f"[moot.{kind}s]\n{lines}\n" for kind, lines in entry_points.items())
    (about / "entry_points.txt").write_text("\n".join(groups))
    (folder / f"{package}.py").write_text(module)
