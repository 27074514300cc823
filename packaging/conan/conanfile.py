"""kvgate as a Conan 2 package, from the tree that this file stands in: conan create packaging/conan

The libraries that it is made of are those of the system (scripts/lib/setup.sh lists Debian's): what
Conan builds of them would have to be the versions that kvgate was tested with.
"""

import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load
from conan.tools.system.package_manager import Apt

TREE = ("CMakeLists.txt", "CHANGELOG.md", "LICENSE", "base/*", "cmake/*", "engine/*", "gateway/*",
        "kernels/*", "packaging/*", "sdk/*", "store/*")


class Kvgate(ConanFile):
    name = "kvgate"
    license = "Apache-2.0"
    description = "A prompt-caching gateway with an embedded inference engine, as a library"
    settings = "os", "compiler", "build_type", "arch"
    package_type = "shared-library"

    def _tree(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        project = load(self, os.path.join(self._tree(), "CMakeLists.txt"))
        self.version = project.split("project(kvgate VERSION ")[1].split()[0]

    def export_sources(self):
        for pattern in TREE:
            copy(self, pattern, self._tree(), self.export_sources_folder)

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("kvgate runs on Linux; elsewhere in a container")
        check_min_cppstd(self, 20)

    def system_requirements(self):
        Apt(self).install([
            "libboost1.81-dev", "libssl-dev", "librocksdb-dev", "libxxhash-dev",
            "nlohmann-json3-dev", "libsimdjson-dev", "libexpected-dev", "libhwy-dev",
            "libpcre2-dev", "libutf8proc-dev", "libcli11-dev", "libspdlog-dev", "libfmt-dev",
            "libzstd-dev", "zlib1g-dev", "libbrotli-dev", "libtomlplusplus-dev", "pkg-config",
            "python3"], update=True, check=True)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["KVGATE_BUILD_TESTS"] = False
        toolchain.cache_variables["KVGATE_CUDA"] = "OFF"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="installable")

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # kvgate's own CMake package says everything; Conan does not write a second one.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs.append(os.path.join("lib", "cmake", "kvgate"))
        self.cpp_info.libs = ["kvgate"]
