/* boxcli completion: a script for bash. */
#include "args.h"

/* Words come from `boxcli commands` and --help, so a new command completes without touching this.
 * It never puts what was typed behind a command on a command line: "boxcli run x --help" would run
 * x. Ids of sessions are the server's word: they never go through compgen -W, which expands $(...).
 * File names are offered only where a file is wanted, hence no -o default. */
static const char bash_completion[] =
    "_boxcli_files() {\n"
    "    compopt -o default 2>/dev/null\n"
    "}\n"
    "_boxcli_ids() {\n"
    "    local id\n"
    "    [[ ${BOX_ENDPOINT:-} != spawn:* ]] || return 0 # that would start a server\n"
    "    while IFS= read -r id; do\n"
    "        [[ $id != \"$2\"* ]] || COMPREPLY+=(\"$(printf %q \"$id\")\")\n"
    "    done < <(timeout 1 \"$1\" session list --ids 2>/dev/null </dev/null)\n"
    "}\n"
    "_boxcli() {\n"
    "    local program=$1 cur=${COMP_WORDS[COMP_CWORD]} i words=() own=() candidates= elsewhere=\n"
    "    COMPREPLY=()\n"
    "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "        case ${COMP_WORDS[i]} in\n"
    "            --)\n"
    "                _boxcli_files\n"
    "                return\n"
    "                ;;\n"
    "            --endpoint | --token-file | --ca | --cert | --key | --tenant)\n"
    "                local option=${COMP_WORDS[i]}\n"
    "                ((${#words[@]})) || elsewhere=1 # another server or tenant than ours\n"
    "                # readline splits at '=' and ':'\n"
    "                ((i++))\n"
    "                [[ ${COMP_WORDS[i]:-} != = ]] || ((i++))\n"
    "                while [[ ${COMP_WORDS[i + 1]:-} == : ]]; do ((i += 2)); done\n"
    "                if ((i >= COMP_CWORD)); then\n"
    "                    [[ $option == --endpoint || $option == --tenant ]] || _boxcli_files\n"
    "                    return\n"
    "                fi\n"
    "                ;;\n"
    "            -* | =) ;;\n"
    "            *) words+=(\"${COMP_WORDS[i]}\") ;;\n"
    "        esac\n"
    "    done\n"
    "    local commands=$(\"$program\" commands 2>/dev/null)\n"
    "    if ((${#words[@]} == 0)); then\n"
    "        candidates=\"--json --endpoint --token-file --ca --cert --key --tenant --plaintext "
    "--help --version\n"
    "            $(cut -d' ' -f1 <<<\"$commands\")\"\n"
    "    else\n"
    "        # A command is one word or two; the words behind it are its own.\n"
    "        own=(\"${words[0]}\")\n"
    "        grep -qxF -- \"${words[0]}\" <<<\"$commands\" || own=(\"${words[@]:0:2}\")\n"
    "        if ((${#own[@]} == 1)) && ! grep -qxF -- \"${own[0]}\" <<<\"$commands\"; then\n"
    "            candidates=\"--help $(sed -n \"s/^${own[0]} //p\" <<<\"$commands\")\"\n"
    "        elif [[ ${own[0]} == run ]] && ((${#words[@]} > 1)); then\n"
    "            _boxcli_files\n"
    "        elif [[ ${own[0]} == exec || ${own[*]} == process\\ start ]] &&\n"
    "                ((${#words[@]} > ${#own[@]} + 1)); then\n"
    "            _boxcli_files\n"
    "        elif [[ $cur == -* ]] && grep -qxF -- \"${own[*]}\" <<<\"$commands\"; then\n"
    "            candidates=$(\"$program\" \"${own[@]}\" --help 2>/dev/null | grep -oE -- "
    "'--[a-z][a-z-]+' | sort -u)\n"
    "        elif [[ ${own[0]} == completion ]]; then\n"
    "            candidates=bash\n"
    "        elif ((${#words[@]} == ${#own[@]})) && [[ -z $elsewhere ]]; then\n"
    "            case ${own[*]} in\n"
    "                exec | attach | port-forward | process\\ * | session\\ get | session\\ update "
    "| session\\ "
    "extend | session\\ stop | "
    "\\\n"
    "                    session\\ delete | session\\ watch | file\\ *) _boxcli_ids \"$program\" "
    "\"$cur\" ;;\n"
    "            esac\n"
    "            return\n"
    "        elif [[ ${own[0]} == run ]]; then\n"
    "            _boxcli_files\n"
    "        fi\n"
    "    fi\n"
    "    [[ -z $candidates ]] || COMPREPLY=($(compgen -W \"$candidates\" -- \"$cur\"))\n"
    "}\n"
    "complete -F _boxcli boxcli\n";

static int completion(cli *c, int argc, char **argv)
{
    (void)c;
    cli_words words = {.doc = "bash",
                       .summary = "Prints a completion script: source <(boxcli completion bash)",
                       .min = 1,
                       .max = 1};
    cli_parse_words(&words, argc, argv);
    if (strcmp(words.word[0], "bash") != 0) {
        fprintf(stderr, "boxcli: no completion for %s, only for bash\n", words.word[0]);
        return CLI_MISUSED;
    }
    fputs(bash_completion, stdout);
    return CLI_OK;
}

const cli_command cli_completion_commands[] = {
    {"completion", NULL, "print a completion script (bash)", completion},
    {0},
};
