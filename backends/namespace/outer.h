/* Sandboxes without root: a user and a mount namespace of the warden's user, in which the warden's
 * helpers are root and make sandboxes as root does. The warden itself stays outside: what owns a
 * user namespace has all rights over what is in it (user_namespaces(7)), so that it, or the next
 * one, can find, adopt and end every sandbox.
 *
 * With newuidmap and newgidmap (package uidmap) and ranges in /etc/subuid and /etc/subgid each
 * sandbox has host ids of its own. Without them there is one id, the user's, which inside is
 * uid 1000 for agent and commands alike. */
#pragma once

#include "base/error.h"
#include "namespace/sandbox.h"
#include "namespace/template.h"

typedef struct box_outer box_outer;

/* Makes the namespaces and the template in them. BACKEND_UNAVAILABLE when the host forbids user
 * namespaces to ordinary users. */
int box_outer_open(const char *template_dir, box_outer **out, box_template **template,
                   box_error *err) BOX_MUST_USE;
void box_outer_close(box_outer *o);

/* How ids of sandboxes are mapped: BOX_IDS_THREE or BOX_IDS_ONE. */
box_ids box_outer_ids(const box_outer *o);
/* Where, in there, the ids of a sandbox begin whose range the warden calls uid_base. Two sandboxes
 * share theirs when a user has tens of thousands, or several wardens: then the kernel counts for
 * both what it counts for a user, and nothing else is shared. */
uint32_t box_outer_base(const box_outer *o, uint32_t uid_base);

/* A helper goes in, for good, as root. */
int box_outer_enter(const box_outer *o, box_error *err) BOX_MUST_USE;
