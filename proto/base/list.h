/* A doubly linked list whose links live in the objects. A zeroed link is in no list; a head must be
 * initialised. Nothing is owned. */
#pragma once

#include <stdbool.h>

#include "base/macros.h"

typedef struct box_list {
    struct box_list *next;
    struct box_list *prev;
} box_list;

static inline void box_list_init(box_list *head)
{
    head->next = head->prev = head;
}

static inline bool box_list_empty(const box_list *head)
{
    return head->next == head;
}

static inline bool box_list_linked(const box_list *link)
{
    return link->next != NULL;
}

static inline void box_list_append(box_list *head, box_list *link)
{
    link->next = head;
    link->prev = head->prev;
    head->prev->next = link;
    head->prev = link;
}

static inline void box_list_prepend(box_list *head, box_list *link)
{
    box_list_append(head->next, link);
}

/* Harmless on a link that is in no list. */
static inline void box_list_remove(box_list *link)
{
    if (link->next == NULL)
        return;
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->next = link->prev = NULL;
}

/* `for (box_list *at = head.next; at != &head; at = at->next)`, with BOX_CONTAINER for the object.
 */
