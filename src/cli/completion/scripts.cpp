#include "cli/completion/scripts.h"

#include "base/error.h"

namespace ct {
namespace {

/// bash cuts words at = and : too, and replaces the last piece only.
constexpr const char* kBash = R"(# Completes the words of cifar-train in bash: the program itself lists them.
_cifar_train() {
  local line=${COMP_LINE:0:COMP_POINT} word rest i
  local -a words=()
  for ((i = 0; i <= COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    rest=${line#"${line%%[![:blank:]]*}"}
    ((i == COMP_CWORD)) && word=$rest
    if ((i == 0)) || [[ $rest != "$line" ]]; then words+=("$word"); else words[-1]+=$word; fi
    line=${rest#"$word"}
  done
  local typed=${words[-1]} shown quote=
  [[ $typed == [\"\']* ]] && quote=${typed:0:1} typed=${typed:1} words[-1]=${words[-1]:1}
  shown=$typed  # within quotes nothing breaks a word
  [[ -z $quote && $COMP_WORDBREAKS == *=* ]] && shown=${shown##*=}
  [[ -z $quote && $COMP_WORDBREAKS == *:* ]] && shown=${shown##*:}
  local before=${typed%"$shown"}
  COMPREPLY=()
  while IFS=$'\t' read -r word rest; do
    case $word in
      :files) compopt -o default ;;
      :folders) compopt -o dirnames ;;
      *)
        [[ $word == *[=/.] ]] && compopt -o nospace
        word=${word#"$before"}
        [[ -z $quote ]] && printf -v word %q "$word" && word=${word//\\,/,}  # %q guards commas, too
        COMPREPLY+=("$word")
        ;;
    esac
  done < <("${1/#\~/$HOME}" __complete "${words[@]:1}" 2>/dev/null)
}
complete -F _cifar_train cifar-train
)";

constexpr const char* kZsh = R"(#compdef cifar-train
# Completes the words of cifar-train in zsh: the program itself lists them.
_cifar-train() {
  local -a whole open given
  local line word text files program=${(Q)words[1]}
  given=("${(@Q)words[2,CURRENT-1]}")
  ((CURRENT > 2)) || given=()
  for line in "${(@f)$("${program/#\~/$HOME}" __complete "${given[@]}" "${(Q)PREFIX}" 2>/dev/null)}"; do
    word=${${line%%$'\t'*}//:/\\:} text=${line#*$'\t'}
    case $line in
      (:*) files=$line ;;
      (*[=/.]$'\t'*) open+=("$word${text:+:$text}") ;;
      (*$'\t'*) whole+=("$word${text:+:$text}") ;;
    esac
  done
  local found=1
  (($#whole)) && _describe -t words word whole && found=0
  (($#open)) && _describe -t words word open -S '' && found=0
  [[ -n $files ]] && compset -P '*='
  case $files in
    (:files) _files && found=0 ;;
    (:folders) _files -/ && found=0 ;;
  esac
  return found
}
if [[ $funcstack[1] == _cifar-train ]]; then _cifar-train "$@"; else compdef _cifar-train cifar-train; fi
)";

constexpr const char* kFish = R"(# Completes the words of cifar-train in fish: the program itself lists them.
function __cifar_train_words
    set -l given (commandline -opc)
    set -l program $given[1]
    string match -q '~/*' -- $program; and set program $HOME/(string sub -s 3 -- $program)
    command -q $program; or return
    set -e given[1]
    set -l typed (string replace -r '^["\']' '' -- (commandline -ct))
    set -l before (string match -r '^.*=' -- "$typed")
    set -l path (string replace -- "$before" '' "$typed")
    set -l name (string unescape -- "$path"; or echo "$path")
    for line in ($program __complete $given "$typed" 2>/dev/null)
        switch $line
            case ':files'
                printf '%s\n' "$before"(__fish_complete_path "$name")
            case ':folders'
                printf '%s\n' "$before"(__fish_complete_directories "$path" '')
            case '*'
                printf '%s\n' $line
        end
    end
end
complete -c cifar-train -f -a '(__cifar_train_words)'
)";

}  // namespace

const char* completion_script(const std::string& shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  check(shell == "fish", "a script for ", shell);
  return kFish;
}

}  // namespace ct
