/* References to connections to ports inside. In a file of their own, because clang's analyzer does
 * not count: it takes one that is dropped beside another that is held for the last. */
#include "base/alloc.h"
#include "base/fd.h"
#include "session/forward_impl.h"

box_forward *box_forward_ref(box_forward *f)
{
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    return f;
}

void box_forward_unref(box_forward *f)
{
    if (f == NULL || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
        return;
    box_closep(&f->fd);
    box_session_unref(f->session);
    free(f);
}
