#include "process_view.h"

#include "box/v1/types.fields.h"

enum { PREFIX_LEN = sizeof "PROCESS_STATE_" - 1 };

static const char *state_name(Box__V1__ProcessState state)
{
    const ProtobufCEnumValue *v =
        protobuf_c_enum_descriptor_get_value(&box__v1__process_state__descriptor, (int)state);
    return v != NULL ? v->name + PREFIX_LEN : "UNKNOWN";
}

bool cli_process_state_parse(const char *text, Box__V1__ProcessState *out)
{
    const ProtobufCEnumDescriptor *type = &box__v1__process_state__descriptor;
    for (unsigned i = 0; i < type->n_values; i++) {
        const ProtobufCEnumValue *v = &type->values[i];
        if (v->value != 0 && strcasecmp(v->name + PREFIX_LEN, text) == 0) {
            *out = (Box__V1__ProcessState)v->value;
            return true;
        }
    }
    return false;
}

void cli_process_heading(const cli *c)
{
    char line[128];
    (void)snprintf(line, sizeof line, "%-24s %-16s %-9s %-6s %-20s %s", "SESSION", "PROCESS",
                   "STATE", "PID", "STARTED", "COMMAND");
    cli_heading(c, line);
}

static void print_command(const Box__V1__ProcessSpec *spec)
{
    if (spec == NULL)
        return;
    if (spec->shell_command[0] != '\0')
        printf("%s", cli_clean(spec->shell_command));
    for (size_t i = 0; i < spec->n_argv; i++)
        printf("%s%s", i > 0 ? " " : "", cli_clean(spec->argv[i]));
}

void cli_process_line(const Box__V1__ManagedProcess *p)
{
    char started[32];
    printf("%-24s %-16s %-9s %-6d %-20s ", cli_clean(p->session_id), cli_clean(p->process_id),
           state_name(p->state), p->pid, cli_when(p->started_at, started));
    print_command(p->spec);
    printf("\n");
}

static void print_verdict(const Box__V1__Verdict *v)
{
    const ProtobufCEnumValue *status =
        protobuf_c_enum_descriptor_get_value(&box__v1__verdict_status__descriptor, (int)v->status);
    printf("ended     %s",
           status != NULL ? status->name + sizeof "VERDICT_STATUS_" - 1 : "UNKNOWN");
    if (box__v1__verdict__has_exit_code(v))
        printf(", exit code %d", v->exit_code);
    if (box__v1__verdict__has_signal(v))
        printf(", signal %d", v->signal);
    if (v->detail[0] != '\0')
        printf(", %s", cli_clean(v->detail));
    printf("\n");
}

static void print_range(const char *name, const Box__V1__JournalRange *range)
{
    if (range != NULL && range->end_offset > 0)
        printf("%-9s %lld bytes, kept from %lld\n", name, (long long)range->end_offset,
               (long long)range->first_offset);
}

static void print_keys(const Box__V1__ManagedProcess *p)
{
    if (p->n_env_keys == 0)
        return;
    printf("env      ");
    for (size_t i = 0; i < p->n_env_keys; i++)
        printf(" %s", cli_clean(p->env_keys[i]));
    printf("\n");
}

static void print(const Box__V1__ManagedProcess *p)
{
    char at[32];
    printf("process   %s of %s\n", cli_clean(p->process_id), cli_clean(p->session_id));
    printf("state     %s%s\n", state_name(p->state), p->ready ? ", ready" : "");
    printf("command   ");
    print_command(p->spec);
    printf("\n");
    if (p->pid != 0)
        printf("pid       %d\n", p->pid);
    printf("started   %s\n", cli_when(p->started_at, at));
    if (p->restarts > 0)
        printf("restarts  %d\n", p->restarts);
    if (p->next_start_at != NULL)
        printf("again at  %s\n", cli_when(p->next_start_at, at));
    if (p->verdict != NULL)
        print_verdict(p->verdict);
    if (p->readers > 0)
        printf("attached  %d%s\n", p->readers, p->attached ? ", one writes" : "");
    print_keys(p);
    print_range("stdout", p->stdout_journal);
    print_range("stderr", p->stderr_journal);
}

int cli_process_show(const cli *c, const ProtobufCMessage *response,
                     const Box__V1__ManagedProcess *p)
{
    if (c->json)
        return cli_print_json(c, response);
    if (p != NULL)
        print(p);
    return CLI_OK;
}

char *cli_process_word(const cli_words *words)
{
    return words->count > 1 ? words->word[1] : (char *)(uintptr_t) "";
}
