# Runs at every build: writes OUTPUT from INPUT with the commit of SOURCE, if its contents change.
# A source without git, or without a commit, is "unknown".
set(CT_COMMIT unknown)
find_program(GIT git)
if(GIT)
  execute_process(
    COMMAND ${GIT} -c safe.directory=${SOURCE} --no-optional-locks -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE described RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed)
    set(CT_COMMIT ${described})
  endif()
endif()
configure_file(${INPUT} ${OUTPUT} @ONLY)
