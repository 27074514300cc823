"""Programs outside of the tree that use the SDK of a build: what their tests share.

They find it by find_package(kvgate CONFIG): as installed by `cmake --install`, where the build has
a package of that name, else where the build made it.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import server

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD_SECONDS_MAX = 600
CONFIG_OF_BUILD = """add_library(kvgate::kvgate SHARED IMPORTED)
set_target_properties(kvgate::kvgate PROPERTIES
  IMPORTED_LOCATION "{library}" INTERFACE_INCLUDE_DIRECTORIES "{headers}")
"""


def build_tree():
    return server.binary_path().resolve().parent.parent


def library():
    return build_tree() / "lib" / "libkvgate.so.1"


def need_library(case):
    """Skips a test whose program loads the library, but is not of this build itself."""
    missing = None if library().exists() else f"{library()} is not built"
    if missing and os.environ.get("KVGATE_E2E_REQUIRED") == "1":
        case.fail(missing)
    cache = build_tree() / "CMakeCache.txt"
    if cache.exists() and re.search(r"^KVGATE_SANITIZE:\w+=\w", cache.read_text(), re.M):
        missing = "a library with sanitizers is loaded by programs with sanitizers only"
    if missing:
        case.skipTest(missing)


def python_environment():
    """What a Python program needs to find the module and the library."""
    return {"KVGATE_LIBRARY": str(library()), "PYTHONPATH": str(ROOT / "sdk/python")}


def compiler_environment():
    """Programs that were compiled before, here or elsewhere, need not be compiled again."""
    if shutil.which("ccache") is None:
        return {}
    return {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache", "CCACHE_NOHASHDIR": "1"}


def run(*command, **options):
    made = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=BUILD_SECONDS_MAX, **options)
    if made.returncode != 0:
        raise AssertionError(f"{command}: {made.stdout[-5000:]}{made.stderr[-5000:]}")
    return made.stdout


def package(folder):
    """A prefix in which CMake finds kvgate."""
    prefix = Path(folder) / "prefix"
    for component in ("library", "development"):
        run("cmake", "--install", build_tree(), "--prefix", prefix, "--component", component)
    if not any(prefix.rglob("kvgate*onfig.cmake")):
        config = prefix / "lib/cmake/kvgate/kvgateConfig.cmake"
        config.parent.mkdir(parents=True)
        config.write_text(CONFIG_OF_BUILD.format(library=library(),
                                                 headers=ROOT / "sdk/include"))
    return prefix


def build(source, binary, folder):
    """Builds the CMake project `source` in `binary`; `folder` gets the package it finds."""
    run("cmake", "-S", source, "-B", binary, f"-DCMAKE_PREFIX_PATH={package(folder)}",
        "-DCMAKE_BUILD_TYPE=Debug", env={**os.environ, **compiler_environment()})
    run("cmake", "--build", binary)
    return Path(binary)
