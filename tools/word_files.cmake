# Writes what the built PROGRAM says about its own words into FOLDER: the scripts of completion and the man page, whose
# date is that of SOURCE's commit, else today's (or SOURCE_DATE_EPOCH's).
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} -c safe.directory=${SOURCE} -C ${SOURCE} log -1 --format=%cs
    OUTPUT_VARIABLE date ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(NOT date)
  string(TIMESTAMP date "%Y-%m-%d" UTC)
endif()
foreach(file "cifar-train.bash:completion bash" "_cifar-train:completion zsh" "cifar-train.fish:completion fish"
        "cifar-train.1:__man ${date}")
  string(REGEX MATCH "^([^:]*):(.*)$" any ${file})
  set(to ${FOLDER}/${CMAKE_MATCH_1})
  separate_arguments(words UNIX_COMMAND "${CMAKE_MATCH_2}")
  execute_process(COMMAND ${PROGRAM} ${words} OUTPUT_FILE ${to} RESULT_VARIABLE failed)
  if(failed)
    file(REMOVE ${to})
    message(FATAL_ERROR "${PROGRAM} ${words} failed: ${failed}")
  endif()
endforeach()
