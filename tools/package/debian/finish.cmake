# Runs when CPack has installed the program for the .deb: what Debian's policy requires beyond `cmake --install`.
set(usr ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr)
set(doc ${usr}/share/doc/cifar-train)

# A module would add /usr/bin to PATH, where it is; the licence's text is in base-files.
file(REMOVE_RECURSE ${usr}/share/modulefiles)
file(REMOVE ${doc}/LICENSE)
file(RPATH_REMOVE FILE ${usr}/bin/cifar-train)  # the loader finds the distribution's libraries

string(TIMESTAMP CT_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH, if it is set
configure_file(${CMAKE_CURRENT_LIST_DIR}/changelog.in ${doc}/changelog.Debian @ONLY)
configure_file(${CMAKE_CURRENT_LIST_DIR}/copyright ${doc}/copyright COPYONLY)
file(RENAME ${doc}/CHANGELOG.md ${doc}/changelog)
file(GLOB pages ${usr}/share/man/man*/*)
execute_process(COMMAND gzip -9n ${doc}/changelog ${doc}/changelog.Debian ${pages} COMMAND_ERROR_IS_FATAL ANY)
