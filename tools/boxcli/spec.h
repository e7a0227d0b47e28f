/* The options that describe a sandbox, shared by run, exec, session create and update. */
#pragma once

#include "box/v1/types.box.h"
#include "cli.h"

typedef struct cli_spec_args {
    Box__V1__SessionSpec
        *spec; /* made at the first option; NULL: nothing asked. Owned by the caller */
} cli_spec_args;

/* argp children; their input is a cli_spec_args. All options, and those that can change while a
 * session lives. */
extern const struct argp cli_spec_argp;
extern const struct argp cli_live_argp;

/* Adds K=V to a generated map field: `Entry` messages of one shape. */
#define CLI_MAP_ADD(count, array, type, init, state, text)                                         \
    cli_map_add((count), (void ***)(array), sizeof(type), (void (*)(void *))(init),                \
                offsetof(type, key), offsetof(type, value), (state), (text))
void cli_map_add(size_t *count, void ***array, size_t size, void (*init)(void *), size_t key_at,
                 size_t value_at, struct argp_state *state, const char *text);

Google__Protobuf__Duration *cli_duration_message(uint64_t ns);
/* In place of what was there. */
void cli_duration_set(Google__Protobuf__Duration **field, uint64_t ns);
