/* SPDX-License-Identifier: MIT */
#include "embed/crew.h"

#include "base/mem.h"
#include "base/spin.h"

int kmf_crew_init(kmf_crew *crew, const kmf_method *method, int threads, kmf_err *err)
{
    crew->method = method;
    crew->threads = threads;
    crew->rooms = kmf_calloc((size_t)threads, sizeof *crew->rooms, err);
    return crew->rooms ? 0 : KMF_ENOMEM;
}

void kmf_crew_free(kmf_crew *crew)
{
    kmf_free(crew->rooms);
}

void kmf_crew_expect(kmf_crew *crew)
{
    atomic_fetch_add(&crew->n_undone, 1);
    atomic_fetch_add(&crew->n_unstarted, 1);
}

void kmf_crew_call_off(kmf_crew *crew)
{
    atomic_fetch_sub(&crew->n_unstarted, 1);
    atomic_fetch_sub(&crew->n_undone, 1);
}

/*
 * A room, or -1: each was in use when it was looked at. Those who joined are as many as batches
 * were missing, so there is one for each job.
 */
static int free_room(kmf_crew *crew, int preferred)
{
    for (int i = 0; i < crew->threads; i++) {
        int room = (preferred + i) % crew->threads;
        if (!atomic_exchange(&crew->rooms[room], true))
            return room;
    }
    return -1;
}

/* Does parts of other threads' batches until all are done. */
static void help(kmf_crew *crew, int room)
{
    for (int tries = 0; atomic_load(&crew->n_undone) > 0; kmf_spin(&tries))
        crew->method->kind->help(crew->method, room);
}

int kmf_crew_enter(kmf_crew *crew, int preferred)
{
    int room;
    int tries = 0;
    while ((room = free_room(crew, preferred)) < 0)
        kmf_spin(&tries); /* one has moved meanwhile */
    atomic_fetch_sub(&crew->n_unstarted, 1);
    return room;
}

void kmf_crew_leave(kmf_crew *crew, int room)
{
    atomic_fetch_sub(&crew->n_undone, 1);
    if (atomic_load(&crew->finishing) && atomic_load(&crew->n_unstarted) == 0)
        help(crew, room);
    atomic_store(&crew->rooms[room], false);
}

int kmf_crew_missing(kmf_crew *crew)
{
    if (!crew->method->shared)
        return 0;
    atomic_store(&crew->finishing,
                 true); /* first: who is done after the count helps by itself */
    int n_busy = (int)atomic_load(&crew->n_undone);
    return n_busy > 0 && n_busy < crew->threads ? crew->threads - n_busy : 0;
}

void kmf_crew_join(kmf_crew *crew, int preferred)
{
    int room = free_room(crew, preferred);
    if (room < 0)
        return;
    help(crew, room);
    atomic_store(&crew->rooms[room], false);
}

void kmf_crew_reset(kmf_crew *crew)
{
    atomic_store(&crew->finishing, false);
}
