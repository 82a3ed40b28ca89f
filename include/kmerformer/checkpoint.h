/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h: runs that fill an output, and go on in another process. */
#ifndef KMERFORMER_CHECKPOINT_H
#define KMERFORMER_CHECKPOINT_H

#include "embed.h"
#include "logits.h"
#include "output.h"
#include "reader.h"
#include "rownearest.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What a checkpoint has to know of the run whose rows go to an output: that of an embedder
 * (kmf_embedder_run), of logits, of a search of rows, or one of the caller's. Texts are JSON
 * objects, freed by kmf_text_free. Each function returns 0 or more, or a negative kmf_code with
 * *err filled.
 */
typedef struct kmf_run {
    const char *kind; /* one word; its checkpoints are not those of another kind */
    void *user;       /* the functions' first argument */
    /*
     * *text: what has to be the same in a run that goes on, beside version, form of the output,
     * inputs and regions, whose keys ("version", "float16", "rows", "inputs", "columns", ...) are
     * not for this. Asked for once for each output.
     */
    int (*describe)(void *user, char **text, kmf_err *err);
    /*
     * 1: *text is how far it is, and what was given to the output of records whose index is below
     * *records, 1 or more, is not given again; what is out of one record more is taken back, and
     * there are no rows of others yet (else KMF_EINVAL). 0: there is nothing to go on from yet.
     * NULL: there never is.
     */
    int (*mark)(void *user, char **text, uint64_t *records, kmf_err *err);
    /*
     * Before the first record: an earlier run came as far as this mark, and so many rows are in the
     * output. KMF_EMODEL: it is no mark of such a run; `where` begins the message.
     */
    int (*go_on)(void *user, const char *mark, uint64_t rows, const char *where, kmf_err *err);
} kmf_run;

/*
 * That of an embedder, which is its user. Records are given to it once more when it goes on: those
 * whose rows are out are passed over, and kmf_embedder_statistics begins with their counts. That
 * they are not the same, which is KMF_EMODEL, is found out by kmf_embedder_add, kmf_embedder_read
 * or kmf_embedder_finish. Of counts and of k-mer vectors there are no marks: such a run takes as
 * long as reading its input.
 */
KMF_API kmf_run kmf_embedder_run(kmf_embedder *embedder);
/*
 * That of logits, whose rows the caller gives to the output one by one. All records are given to it
 * once more when it goes on, and rows that are out are not given again, be they in the middle of a
 * record. That records are not the same, which is KMF_EMODEL, is found out by kmf_logits_add or
 * kmf_logits_finish.
 */
KMF_API kmf_run kmf_logits_run(kmf_logits *logits);
/*
 * That of a search of rows, whose answers the caller gives to the output, the index being how many
 * queries were answered before (kmf_row_search_statistics). All queries are asked for once more
 * when it goes on, and those that were answered are passed over. That they are not the same, which
 * is KMF_EMODEL, is found out by kmf_row_search_ask or kmf_row_search_finish.
 */
KMF_API kmf_run kmf_row_search_run(kmf_row_search *search);

/*
 * A checkpoint of a run whose rows go to a file that is not compressed: the rows that are out are
 * brought to the disk, and from now on the files stay under their temporary names, whatever becomes
 * of the process, until the output is committed and then freed; between the two the caller removes
 * the checkpoint by kmf_output_discard, so that a process may be killed anywhere.
 * 1: there is a file `checkpoint`, in the place of an earlier one, from which kmf_output_resume
 * goes on; 0: there is nothing to go on from, or not yet; or KMF_EIO, KMF_ENOMEM, or what the run's
 * functions return: the earlier one still holds. inputs, reader: as of kmf_provenance, the same in
 * each call. May be called whenever the run calls a progress or row function on the caller's
 * thread, and at its end.
 */
KMF_API int kmf_output_save(kmf_output *output, const kmf_run *run, const char *checkpoint,
                            const char *const *inputs, size_t n_inputs,
                            const kmf_reader_options *reader, kmf_err *err) KMF_MUST_CHECK;
/*
 * 1: kmf_output_save makes checkpoints of this run, once something is done; 0: never, be it that
 * the output is compressed or no file, or that the run has no marks.
 */
KMF_API int kmf_output_saves(const kmf_output *output, const kmf_run *run);
/*
 * In place of kmf_output_new, for the same output, run and inputs; the run then goes on, an
 * embedder once the output takes its rows (kmf_output_take). The bytes are those of a run that was
 * never stopped. NULL: KMF_EINVAL, KMF_ENOMEM as of kmf_output_new; KMF_EMODEL: the checkpoint is
 * none, or of another run, and the message names what differs; KMF_EIO: its files are not there, as
 * for another path, or another process is at work at them (within one process nothing tells).
 */
KMF_API kmf_output *kmf_output_resume(const char *path, const kmf_output_form *form,
                                      const kmf_run *run, const char *checkpoint,
                                      const char *const *inputs, size_t n_inputs,
                                      const kmf_reader_options *reader,
                                      kmf_err *err) KMF_MUST_CHECK;
/*
 * Removes a checkpoint of the output at path, no other one's, and the files that it kept. Results
 * that are whole stay: if each of these files has its final name, as after kmf_output_commit, only
 * the others go. Of a run that was killed while its files got their names, some of which lack them,
 * those that have one lose it. Not for an output of this process that is still to be committed.
 * Errors else as above.
 */
KMF_API int kmf_output_discard(const char *path, const char *checkpoint,
                               kmf_err *err) KMF_MUST_CHECK;
/*
 * 1: the file is a checkpoint of an output at path, of whatever run, which kmf_output_discard would
 * take; 0: it is something else, is damaged, or cannot be read.
 */
KMF_API int kmf_output_is_checkpoint(const char *path, const char *checkpoint);

#ifdef __cplusplus
}
#endif

#endif
