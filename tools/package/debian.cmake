# The .deb that CPack makes: tools/package.sh deb. GPU libraries are no dependencies: the program opens them at run time.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cifar-train)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains image classifiers on CPUs and NVIDIA GPUs")
set(CPACK_PACKAGE_DESCRIPTION
"cifar-train trains convolutional networks and vision transformers on CIFAR-10,
MNIST or folders of pictures, on one core or many hosts. It reads DeepSpeed's
configurations and writes safetensors files under PyTorch's names. The same
configuration gives the same weights, bit for bit, on any number of ranks.")
set(CPACK_PACKAGE_CONTACT "cifar-train maintainers <maintainers@cifar-train.invalid>" CACHE STRING
  "the maintainer that packages name")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_RELEASE 0local1)  # below any revision of Debian's own
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
if(CURL_FOUND)  # opened at run time too; the first name is Ubuntu's
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libcurl4t64 | libcurl4")
endif()
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS openmpi-bin)  # mpirun
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian/finish.cmake)
include(CPack)
