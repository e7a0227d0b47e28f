#include "session_view.h"

#include "base/alloc.h"

static const char *name_of(const ProtobufCEnumDescriptor *type, int value, const char *prefix)
{
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(type, value);
    return v != NULL ? v->name + strlen(prefix) : "UNKNOWN";
}

const char *cli_session_state(Box__V1__SessionState state)
{
    return name_of(&box__v1__session_state__descriptor, (int)state, "SESSION_STATE_");
}

/* " (REQUESTED) text": why it is in that state; nothing where there is nothing to say. */
static void print_cause(const Box__V1__Session *s)
{
    if (s->stop_reason != BOX__V1__STOP_REASON__STOP_REASON_UNSPECIFIED)
        printf(" (%s)",
               name_of(&box__v1__stop_reason__descriptor, (int)s->stop_reason, "STOP_REASON_"));
    if (s->state_detail[0] != '\0')
        printf(" %s", cli_clean(s->state_detail));
}

static void print_labels(const Box__V1__Session *s)
{
    for (size_t i = 0; s->spec != NULL && i < s->spec->n_labels; i++) {
        printf(" %s", cli_clean(s->spec->labels[i]->key));
        printf("=%s", cli_clean(s->spec->labels[i]->value));
    }
}

static void print_state(const Box__V1__Session *s)
{
    printf("%-24s %-9s ", cli_clean(s->session_id), cli_session_state(s->state));
}

void cli_session_heading(const cli *c)
{
    char line[128];
    (void)snprintf(line, sizeof line, "%-24s %-9s %-10s %-20s %s", "SESSION", "STATE", "BACKEND",
                   "CREATED", "LABELS");
    cli_heading(c, line);
}

void cli_session_line(const Box__V1__Session *s)
{
    char created[32];
    print_state(s);
    printf("%-10s %s", cli_clean(s->backend), cli_when(s->created_at, created));
    print_labels(s);
    print_cause(s);
    printf("\n");
}

void cli_session_event(const Box__V1__WatchSessionsResponse *e)
{
    char at[32];
    const char *what =
        name_of(&box__v1__session_event_type__descriptor, (int)e->type, "SESSION_EVENT_TYPE_");
    printf("%s ", cli_when(e->occurred_at, at));
    if (e->session != NULL) {
        printf("%-13s ", what);
        print_state(e->session);
        printf("%s", cli_clean(e->session->backend));
        print_labels(e->session);
        print_cause(e->session);
    } else if (e->lost_events > 0) {
        printf("%s %lld", what, (long long)e->lost_events);
    } else {
        printf("%s", what);
    }
    printf("\n");
}

static void print_limits(const Box__V1__SessionSpec *spec)
{
    printf("limits    %lld MiB memory, %d millis CPU, %d pids\n",
           (long long)spec->memory_bytes >> 20, spec->cpu_millis, spec->pids_limit);
}

void cli_session_print(const Box__V1__Session *s)
{
    char text[32];
    printf("session   %s\n", cli_clean(s->session_id));
    printf("state     %s", cli_session_state(s->state));
    print_cause(s);
    printf("\nbackend   %s\n", cli_clean(s->backend));
    printf("created   %s\n", cli_when(s->created_at, text));
    if (s->stopped_at != NULL) {
        printf("stopped   %s\n", cli_when(s->stopped_at, text));
    } else {
        printf("used      %s\n", cli_when(s->last_used_at, text));
        printf("expires   %s\n", cli_when(s->expires_at, text));
    }
    if (s->spec != NULL && s->spec->n_labels > 0) {
        printf("labels   ");
        print_labels(s);
        printf("\n");
    }
    if (s->spec != NULL)
        print_limits(s->spec);
    printf("commands  %d running, %d waiting, %lld in all\n", s->active_execs, s->queued_execs,
           (long long)s->total_execs);
    for (size_t i = 0; i < s->n_adjustments; i++) {
        printf("adjusted  %s", cli_clean(s->adjustments[i]->field));
        printf(" to %s", cli_clean(s->adjustments[i]->effective));
        printf(" (%s)\n", cli_clean(s->adjustments[i]->rule));
    }
}
