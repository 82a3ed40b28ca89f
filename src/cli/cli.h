/* SPDX-License-Identifier: MIT */
/*
 * What all commands share: one run's context, options by table, messages, progress, signals.
 * A command includes headers of cli/ and kmerformer.h and nothing else.
 *
 * stdout carries data only; everything here speaks on stderr.
 */
#ifndef KMF_CLI_H
#define KMF_CLI_H

#include "kmerformer.h"

#include <stdbool.h>
#include <stdio.h>

#define CLI_PATH_CAP 4096 /* bytes of a path, its NUL included */

/* ---------------------------------------------------------------- one run --------------- */

enum {
    CLI_DONE = 0,
    CLI_USAGE = 1,
    CLI_DATA = 2,    /* input or output failed */
    CLI_LIMIT = 3,   /* out of memory or over a limit */
    CLI_MODEL = 4,   /* a model or format does not fit */
    CLI_STOPPED = 75 /* by a signal, after a good checkpoint: run it again */
};

typedef struct cli {
    const char *command;      /* "embed", "vocab merge" */
    const char *command_line; /* "kmerformer embed ..." */
    const char *about; /* of several models, the one that warnings are about; NULL: not said */
    int quiet;
    int verbose;
    double started;            /* cli_now() */
    const char *const *inputs; /* [n_inputs] borrowed from argv: what cli_parse left of it */
    size_t n_inputs;
} cli;

typedef struct cli_command {
    const char *name; /* "embed", "vocab merge"; the user writes the last word */
    int (*run)(cli *run, int argc, char **argv); /* argv[0] is that word; an exit code */
    const char *brief;
    const struct cli_command *subcommands; /* a list, or NULL: none */
} cli_command;

/* The end of every list of commands. */
#define CLI_COMMAND_END        \
    {                          \
        NULL, NULL, NULL, NULL \
    }

int cli_bench(cli *run, int argc, char **argv);
int cli_convert(cli *run, int argc, char **argv);
int cli_embed(cli *run, int argc, char **argv);
int cli_eval(cli *run, int argc, char **argv);
int cli_eval_bits(cli *run, int argc, char **argv);
int cli_info(cli *run, int argc, char **argv);
int cli_init(cli *run, int argc, char **argv);
int cli_logits(cli *run, int argc, char **argv);
int cli_merge(cli *run, int argc, char **argv);
int cli_nearest(cli *run, int argc, char **argv);
int cli_plot(cli *run, int argc, char **argv);
int cli_pretrain(cli *run, int argc, char **argv);
int cli_probe(cli *run, int argc, char **argv);
int cli_probe_predict(cli *run, int argc, char **argv);
int cli_tokenize(cli *run, int argc, char **argv);
int cli_vocab(cli *run, int argc, char **argv);
int cli_word2vec(cli *run, int argc, char **argv);

/* Those of `kmerformer vocab`. */
int cli_vocab_export(cli *run, int argc, char **argv);
int cli_vocab_merge(cli *run, int argc, char **argv);
int cli_vocab_show(cli *run, int argc, char **argv);
int cli_vocab_stats(cli *run, int argc, char **argv);

extern const cli_command cli_eval_subcommands[];
extern const cli_command cli_plot_subcommands[];
extern const cli_command cli_probe_subcommands[];
extern const cli_command cli_vocab_subcommands[];

/* The command of a list that this word calls; NULL: none does. */
const cli_command *cli_find_command(const cli_command *list, const char *word);

/*
 * What a word that is unknown was meant to be: the name it is offered that differs from it by the
 * fewest mistakes of typing, a third of its letters at most. text: " (is --name meant?)", "" if
 * none is that near.
 */
typedef struct cli_suggestion {
    const char *typed; /* borrowed [len] */
    size_t len;
    const char *mark; /* that stands before names, "--" or "" */
    size_t mistakes;
    char text[64];
} cli_suggestion;
void cli_suggest(cli_suggestion *best, const char *name);
/* Of a list of commands. */
cli_suggestion cli_command_meant(const cli_command *list, const char *word);

/* ---------------------------------------------------------------- options --------------- */

typedef enum cli_kind {
    CLI_FLAG,   /* int, set to 1                                          */
    CLI_INT,    /* int                                                    */
    CLI_SIZE,   /* size_t, with an optional K, M, G or T (powers of 1000) */
    CLI_COUNT,  /* uint64_t, likewise                                     */
    CLI_BYTES,  /* uint64_t, with powers of 1024                          */
    CLI_SEED,   /* uint64_t                                               */
    CLI_REAL,   /* double, 0 or more; the library checks its range        */
    CLI_CHOICE, /* int, index of one of `words`                           */
    CLI_TEXT,   /* const char *, borrowed from argv                       */
    CLI_ONCE,   /* as CLI_TEXT; two would be thought to add up: refused   */
    CLI_LIST,   /* cli_list: as CLI_TEXT, one more each time it is given  */
    CLI_HELP,   /* prints the help and ends well                          */
    CLI_SECTION /* no option: a heading in the help                       */
} cli_kind;

#define CLI_LIST_MAX 64
typedef struct cli_list {
    const char *texts[CLI_LIST_MAX]; /* borrowed from argv */
    size_t n;
} cli_list;

/*
 * One option. The target's value before parsing is the default that --help shows; if it is
 * `unset`, the text `unset_text` is shown instead (NULL: nothing).
 */
typedef struct cli_option {
    const char *shorts; /* "t@": letters that all mean it; NULL: none */
    const char *name;   /* long name, or the heading's text */
    cli_kind kind;
    void *target;
    long long min, max; /* INT, SIZE, COUNT, BYTES */
    const char *const *words;
    const char *arg; /* "N", "FILE" in the help */
    const char *help;
    long long unset;
    const char *unset_text;
} cli_option;

#define CLI_OPTION_END                                              \
    {                                                               \
        NULL, NULL, CLI_FLAG, NULL, 0, 0, NULL, NULL, NULL, 0, NULL \
    }
#define CLI_HEADING(text)                                              \
    {                                                                  \
        NULL, text, CLI_SECTION, NULL, 0, 0, NULL, NULL, NULL, 0, NULL \
    }
/* Threads that work: an int. */
#define CLI_THREADS(target)                                                                 \
    {                                                                                       \
        "t@", "threads", CLI_INT, target, 1, KMF_THREADS_MAX, NULL, "N", "threads", 0, NULL \
    }
/* -q, -v, -h: the end of every table. */
#define CLI_COMMON(run)                                                                     \
    {"q", "quiet", CLI_FLAG, &(run)->quiet, 0, 0, NULL, NULL, "errors only", 0, NULL},      \
        {"v", "verbose", CLI_FLAG, &(run)->verbose, 0, 0, NULL, NULL, "say more", 0, NULL}, \
        {"h", "help", CLI_HELP, NULL, 0, 0, NULL, NULL, "this text", 0, NULL}, CLI_OPTION_END

/* clang-format off */
/* How inputs are read: rows for a kmf_reader_options. */
#define CLI_READER_OPTIONS(r)                                                                 \
    {NULL, "regions", CLI_ONCE, &(r)->regions, 0, 0, NULL, "LIST",                            \
     "chr:beg-end,... (1-based, inclusive) of a FASTA, whose index is made beside it if it "  \
     "has none", 0, NULL},                                                                    \
    {NULL, "bed", CLI_ONCE, &(r)->bed, 0, 0, NULL, "FILE",                                    \
     "the regions of a BED file, on their strand", 0, NULL},                                  \
    {NULL, "bed-names", CLI_FLAG, &(r)->bed_names, 0, 0, NULL, NULL,                          \
     "records are called by the fourth column of --bed", 0, NULL},                            \
    {NULL, "reference", CLI_TEXT, &(r)->reference, 0, 0, NULL, "FASTA",                       \
     "that a CRAM file was made against", 0, NULL}
/* A row for one that gives names out. */
#define CLI_NAME_OPTION(r)                                                                    \
    {NULL, "input-names", CLI_FLAG, &(r)->input_names, 0, 0, NULL, NULL,                      \
     "records are called INPUT:NAME, to tell those of several inputs apart", 0, NULL}
/* What is kept of the inputs: rows for options with memory and tmp; of: what takes the memory. */
#define CLI_MEMORY_OPTIONS(o, of)                                                             \
    {"m", "memory", CLI_BYTES, &(o)->memory, 1, INT64_MAX, NULL, "SIZE",                      \
     "bytes for " of "; what exceeds it goes to disk", 0, "4G"},                              \
    {NULL, "tmp", CLI_TEXT, &(o)->tmp, 0, 0, NULL, "DIR",                                     \
     "folder for what exceeds the memory", 0, "$TMPDIR, or /tmp"}
/* Rows for one whose records may be cut. */
#define CLI_TILE_OPTIONS(r)                                                                   \
    {NULL, "tile", CLI_SIZE, &(r)->tile, 1, (size_t)1 << 40, NULL, "N",                       \
     "cut each record into tiles of N bases, a row each, called NAME:BEG-END; the last one "  \
     "is what is left", 0, "records are whole"},                                              \
    {NULL, "tile-step", CLI_SIZE, &(r)->tile_step, 1, (size_t)1 << 40, NULL, "N",             \
     "bases from the beginning of a tile to the next one's, fewer for overlapping tiles", 0,  \
     "that of --tile"}
/* clang-format on */

typedef struct cli_usage {
    const char *synopsis;       /* "embed [options] IN..." */
    const char *text;           /* a paragraph */
    int min_inputs, max_inputs; /* max < 0: any number */
} cli_usage;

/*
 * Parses argv by the table; run->inputs are then what is no option, with a NULL behind them.
 * Returns -1 to go on, else the exit code with which to leave (0 after --help).
 */
int cli_parse(cli *run, const cli_option *table, const cli_usage *usage, int argc, char **argv);

/*
 * Reads a number up to limit, with `units` also one with K, M, G or T (powers of 1000) behind
 * it; or a range of such, "5" being 5 to 5, "9-12". Returns what follows, or NULL if it is none
 * or too large.
 */
const char *cli_read_count(const char *text, uint64_t limit, bool units, uint64_t *n);
const char *cli_read_range(const char *text, uint64_t limit, bool units, uint64_t *first,
                           uint64_t *last);

/* The text of a help: `text`, then a line for each command of a list. Returns `to`. */
const char *cli_list_commands(char *to, size_t cap, const char *text, const cli_command *list);
/* What a command does that was called without one of its sub-commands: its help, or refuse. */
int cli_want_subcommand(cli *run, const char *synopsis, const char *text,
                        const cli_command *list, int argc, char **argv);

/* ---------------------------------------------------------------- messages -------------- */

/* Seconds on a clock that only goes forward. */
double cli_now(void);
/* "kmerformer embed: message"; returns the exit code of err. */
int cli_fail(const cli *run, const kmf_err *err);
/* The same for wrong usage. */
int cli_wrong(const cli *run, const char *format, ...) KMF_PRINTF(2, 3);
/* "kmerformer embed: warning: ..." unless -q. */
void cli_warn(const cli *run, const char *format, ...) KMF_PRINTF(2, 3);
/* What a warning of k-mers outside of the alphabet ends with: "", or a doubt if they are most. */
const char *cli_asks_for_alphabet(kmf_alphabet alphabet, uint64_t outside, uint64_t inside);
/*
 * Warns where k-mers that were counted as proteins look like DNA, whose letters are amino acids,
 * too: twenty times as many k-mers as five letters make are no more different ones than these.
 */
void cli_warn_of_nucleotides(const cli *run, int k, uint64_t kmers, uint64_t distinct);
/* A warning for each thing that the sequences lost; options: with those of embed that decide it. */
void cli_warn_of_losses(const cli *run, const kmf_embed_stats *s, bool options);
/*
 * The same of all that was embedded, in the words that fit the model; without options nothing of
 * the records that have no valid k-mer. And how many were not computed.
 */
void cli_tell_of_embedding(const cli *run, const kmf_embedder *embedder, bool options);
/* Of letters that are in no k-mer, as the stride passes over them; k 0: tokens are no k-mers. */
void cli_warn_of_stride(const cli *run, size_t stride, int k);
/* The same of an embedder's. */
void cli_warn_of_gaps(const cli *run, const kmf_embedder *embedder);
/* A precision of products that the processor lacks, and what takes its place. */
void cli_warn_of_precision(const cli *run, int asked, int used);
/*
 * Before vectors are made: settings that were asked for and are not kept, change nothing, or pass
 * over letters.
 */
void cli_warn_of_vectors(const cli *run, const kmf_embedder *embedder,
                         const kmf_embed_options *asked);
/* Of a training that goes on: other_kernels of its state. */
void cli_warn_of_kernels(const cli *run);
/*
 * A warning if a file had no records, and one for the alignments in it that were passed over. opts:
 * how it was read; NULL: as a whole.
 */
void cli_warn_of_reading(const cli *run, const char *path, const kmf_reader_options *opts,
                         const kmf_reader_stats *s);
/* "[kmerformer embed 1.2s] ..." unless -q. */
void cli_note(const cli *run, const char *format, ...) KMF_PRINTF(2, 3);
/* n with a thousands, millions or billions suffix: "12.1 M". Returns buf. */
#define CLI_COUNT_TEXT 32
const char *cli_count(char buf[CLI_COUNT_TEXT], double n);
/* How long the words of the vectors are: "6" or "3 to 8". Returns buf. */
#define CLI_LENGTHS_TEXT 32
const char *cli_lengths(char buf[CLI_LENGTHS_TEXT], const kmf_vectors_info *info);
/* A time, rounded: "45 s", "12 min", "3.5 h". */
const char *cli_time(char buf[CLI_COUNT_TEXT], double seconds);
/*
 * A token as it stands in a table, for a vocabulary may have one that is a newline. To `to`, which
 * has 4 bytes for each of the token's, without a NUL: returns the length; or to standard output.
 */
size_t cli_token_text(char *to, const char *token);
void cli_put_token(const char *token);
/* Peak resident memory of this process, bytes. */
double cli_peak_memory(void);
/* Seconds of processor time of this process. */
double cli_cpu_seconds(void);
/* Flushes standard output; CLI_DONE or CLI_DATA with a message. */
int cli_close_stdout(const cli *run);

/* ---------------------------------------------------------------- failures -------------- */

/* Fills err as the library does, for what a command finds out by itself; returns code. */
int cli_raise(kmf_err *err, kmf_code code, const char *format, ...) KMF_PRINTF(3, 4);
/* What messages call an input: "-" is standard input. */
const char *cli_input_name(const char *path);
/* "x.fa: " before a message. */
void cli_name_file(const char *path, kmf_err *err);
/* The same of what a cutter says of a record, with its number: "x.fa: record 7 'name': ...". */
void cli_name_record(const char *path, const kmf_record *rec, kmf_err *err);

/* ---------------------------------------------------------------- inputs ---------------- */

/* One of n inputs that is the same file as another one, "-" the one behind standard input; NULL:
   none is. */
const char *cli_given_twice(const char *const *paths, size_t n);
/* What comes of that is told behind "x is given twice, and". */
void cli_warn_of_twice(const cli *run, const char *const *paths, size_t n, const char *what);
/* Is an input, "-" too, the file of one of n others (NULLs apart), or what belongs to that? */
bool cli_given_as_well(const char *path, const char *const *paths, size_t n);
/*
 * Before a long job: are all the n inputs, NULLs apart, and the reader's BED file and reference
 * (NULL: no reader) there to be read, standard input once, and the BED file, which is read for each
 * input anew, as often as there are inputs? The job itself may still fail to read them. 0,
 * KMF_EINVAL or KMF_EIO.
 */
int cli_check_inputs(const char *const *paths, size_t n, const kmf_reader_options *reader,
                     kmf_err *err);

/* How much of the inputs was read, by their bytes. */
typedef struct cli_inputs {
    uint64_t bytes;           /* of all; 0: not known, as of a pipe or of regions */
    uint64_t bytes_before;    /* of those that are done, and */
    uint64_t bytes_here;      /* of the one being read */
    double passed;            /* share of them that needed no work */
    uint64_t letters;         /* of the inputs that are done */
    double done;              /* share of the letters read that is worked on */
    const kmf_reader *reader; /* borrowed: its; NULL: now is kept by who reads */
    kmf_reader_stats now;     /* of the one being read */
} cli_inputs;

void cli_inputs_start(cli_inputs *in, const char *const *paths, size_t n,
                      const kmf_reader_options *opts);
/* Around the reading of each input, by reader or NULL. */
void cli_inputs_open(cli_inputs *in, const char *path, const kmf_reader *reader);
void cli_inputs_close(cli_inputs *in);
/* Of the letters read, of which the last may be those of a long record, so many are worked on. */
void cli_inputs_work(cli_inputs *in, double letters);
/* What is worked on so far needed no work. */
void cli_inputs_pass(cli_inputs *in);
/* ", 5 min left" where so many seconds were needed for the rest, "" where it cannot be told. */
const char *cli_inputs_left(cli_inputs *in, char buf[CLI_COUNT_TEXT], double seconds);

/* Takes all records of a reader; 0 or a negative kmf_code. */
typedef int cli_take_fn(void *to, kmf_reader *reader, kmf_err *err);
/*
 * Opens an input, hands it to fn, and warns of what was passed over; in (may be NULL) knows of it
 * meanwhile. 0 or a negative kmf_code.
 */
int cli_read_file(const cli *run, const char *path, const kmf_reader_options *opts,
                  kmf_pool *pool, cli_inputs *in, cli_take_fn *fn, void *to, kmf_err *err);
/* Takes a record of the input `path`; 0 or a negative kmf_code. */
typedef int cli_record_fn(void *to, const char *path, const kmf_record *rec, kmf_err *err);
/*
 * cli_read_file for each of n inputs, with cli_inputs_start, whose records go to fn one by one,
 * until it fails or standard output does. 0 or a negative kmf_code.
 */
int cli_read_records(const cli *run, const char *const *paths, size_t n,
                     const kmf_reader_options *opts, cli_inputs *in, cli_record_fn *fn,
                     void *to, kmf_err *err);
/* What of the genomes cannot be learnt from. */
void cli_warn_of_left_out(const cli *run, const kmf_pretrain_state *s);
/* That records overlap, of which bases are held out. */
void cli_warn_of_overlap(const cli *run, const kmf_pretrain_state *s);
/* cli_check_inputs for all that cli_read_genomes will read. */
int cli_check_genomes(const kmf_reader_options *opts, const char *const *learn, size_t n_learn,
                      const char *const *held, size_t n_held, kmf_err *err);
/*
 * All that a pretraining begins with: the inputs that are learnt from, those that are held out as a
 * whole, then kmf_pretrain_begin. 0; 1: a signal came meanwhile; or a negative kmf_code.
 */
int cli_read_genomes(cli *run, kmf_pretrain *trainer, const kmf_reader_options *opts,
                     const char *const *learn, size_t n_learn, const char *const *held,
                     size_t n_held, kmf_err *err);

/* ---------------------------------------------------------------- files ----------------- */

/* Is it a regular file? /dev/null, for one, is none: it is neither read nor removed. */
bool cli_is_file(const char *path);
bool cli_is_folder(const char *path);
/* Removes PATH.tmp.NUMBER: what a process had not finished when it was killed. Nobody is at it. */
void cli_remove_left_over(const char *path);
/* A name as a table's field: '?' for what ends one, or speaks to a terminal. NULL: no memory. */
char *cli_plain_name(const char *name);
/* Are both there, and one file or directory? */
bool cli_same_place(const char *a, const char *b);
/*
 * Of --resume auto|never|FILE: the checkpoint to go on from, or NULL; and what the same command has
 * to be given to go on from its own next time.
 */
const char *cli_kept(const char *resume, const char *checkpoint);
const char *cli_to_go_on(const char *resume);
/* KMF_EIO: that checkpoint is not there, or may not be read. Nothing else of it is looked at. */
int cli_check_kept(const char *resume, const char *checkpoint, kmf_err *err);
bool cli_ends_with(const char *text, const char *end);
/*
 * Is out one of the n inputs, the index of one, what lies beside an array, or a file in one that is
 * a model's directory, or random: and that? An input "-" is the file that standard input comes
 * from, if any. An out "-", and inputs that are NULL, never are.
 */
bool cli_is_an_input(const char *out, const char *const *paths, size_t n);
/* kmf_is_row_file, of an argument: "-" is standard input, and NULL none. */
bool cli_is_array(const char *path);
/* Do two outputs, there or not, get the same place? */
bool cli_same_output(const char *a, const char *b);
/* -1, or the exit code if a table of text is to have the name of an array, or of another format. */
int cli_refuse_array(const cli *run, const char *out);
/*
 * The same of a name that says that it is no model, unless it is that of a directory that is there,
 * or standard output.   or_file: the model may be one file
 */
int cli_refuse_model(const cli *run, const char *out, bool or_file);
/* The kmf_vectors_format that a name asks for by its ending; -1: none. */
int cli_vectors_format(const char *name);
/*
 * Before a long job: can a file be made at path, "-" apart? The job itself may still fail to
 * write it. 0 or KMF_EIO.
 */
int cli_check_output(const char *path, kmf_err *err);

/* ---------------------------------------------------------------- overwriting ----------- */

/* Does the file begin as a checkpoint of pretrain or word2vec does? */
bool cli_is_checkpoint(const char *path, const char *kind);
/*
 * -1, or the exit code if out, which -o gave, or what it brings by one of these endings, is one of
 * the inputs. endings end with a NULL.
 */
int cli_refuse_inputs(cli *run, const char *out, const char *const *endings,
                      const char *const *paths, size_t n);
/* -1, or the exit code if an output is to have the name of what lies beside vectors. */
int cli_refuse_companion(const cli *run, const char *out);
/*
 * -1, or the exit code if a table that has nothing beside it is to have the name of an array, of
 * another format, or of what lies beside vectors. What lies beside a table of that name is a
 * warning.
 */
int cli_refuse_table(const cli *run, const char *out);
/*
 * -1, or the exit code if a file that it brings would replace one of something else, or cannot be
 * written. That the file now belongs to another table of the same stem is a warning.
 */
int cli_check_companions(const cli *run, const char *out, const char *const *endings);
/*
 * Both: out and what it brings against the inputs, a model and the reader's files (NULL: there is
 * none), and against what lies there.
 */
int cli_check_place(cli *run, const char *out, const char *const *endings,
                    const char *const *paths, size_t n, const char *model,
                    const kmf_reader_options *reader);
/* -1, or the exit code if a file beside k-mer vectors, x.json or x.vocab, is of something else. */
int cli_refuse_foreign_words(const cli *run, const char *out, const char *name);
extern const char *const cli_row_endings[]; /* of rows: .ids.tsv, .json */
/* Is a picture, or one of the two files beside it? */
bool cli_picture_is_an_input(const char *picture, const char *const *paths, size_t n);

/* ---------------------------------------------------------------- provenance ------------ */

/* Names and texts on their way into the JSON beside an output; it begins as {0}. */
#define CLI_PAIRS_MAX 40
typedef struct cli_pairs {
    const char *pairs[2 * CLI_PAIRS_MAX]; /* borrowed: name, text, name, text ... */
    char *texts[CLI_PAIRS_MAX];           /* owned */
    size_t n;
    bool lost; /* there was no memory for one of them */
} cli_pairs;

/* One more; name is borrowed. */
void cli_pair(cli_pairs *p, const char *name, const char *format, ...) KMF_PRINTF(3, 4);
/* The same, with n lines as its text. */
void cli_pair_lines(cli_pairs *p, const char *name, const char *const *lines, size_t n);
/* The JSON of them all, freed by kmf_text_free; NULL with *err filled. p is empty afterwards. */
char *cli_pairs_text(cli_pairs *p, kmf_err *err);

/* ---------------------------------------------------------------- labelled records ------ */

/* Where labelled records come from, and how a model makes vectors of them. */
typedef struct cli_labelled {
    const char *train, *dev, *test;       /* NULL: not given */
    const char *dev_labels, *test_labels; /* of these parts alone, in place of input.labels */
    kmf_labelled_options input;
    kmf_samples_options samples;
    kmf_embed_options embed;
    bool some_have; /* of several models, one an encoder: others are not told what they lack */
    bool rows; /* the parts are arrays, whose vectors are made: there is no model to choose */
} cli_labelled;

/* clang-format off */
/* Their rows in an option table. */
#define CLI_LABEL_OPTIONS(l)                                                                  \
    {NULL, "labels", CLI_ONCE, &(l)->input.labels, 0, 0, NULL, "TSV",                         \
     "lines name<tab>label for the records of FASTA, FASTQ, SAM, BAM, CRAM, or for vectors; " \
     "of all parts that have none of their own", 0, NULL},                                    \
    {NULL, "dev-labels", CLI_ONCE, &(l)->dev_labels, 0, 0, NULL, "TSV",                       \
     "those of --dev", 0, "those of --labels"},                                               \
    {NULL, "label-key", CLI_TEXT, &(l)->input.key, 0, 0, NULL, "KEY",                         \
     "their labels follow KEY= in the headers", 0, NULL},                                     \
    {NULL, "label-rank", CLI_TEXT, &(l)->input.rank, 0, 0, NULL, "R",                         \
     "of the comma-separated parts of that value, the one after R:", 0, NULL},                \
    {NULL, "skip-unlabelled", CLI_FLAG, &(l)->input.skip_unlabelled, 0, 0, NULL, NULL,        \
     "leave out records without a label, which are an error otherwise", 0, NULL},             \
    CLI_READER_OPTIONS(&(l)->input.reader),                                                   \
    {NULL, "min-class", CLI_SIZE, &(l)->samples.min_class, 1, INT64_MAX, NULL, "N",           \
     "leave out classes with fewer records to train", 0, NULL}
#define CLI_VECTOR_OPTIONS(l)                                                                 \
    {NULL, "pool", CLI_CHOICE, &(l)->embed.pooling, 0, 0, kmf_pooling_names, NULL,            \
     "as in embed, not none; an encoder's", -1, "the model's"},                               \
    {NULL, "layer", CLI_INT, &(l)->embed.layer, -1000, 1000, NULL, "N",                       \
     "0: embeddings, 1, 2, ...; negative from the end", KMF_LAYER_MODEL, "the model's"},      \
    {NULL, "parts", CLI_CHOICE, &(l)->embed.parts, 0, 0, kmf_parts_names, NULL,               \
     "the encoder's states, the model's composition, or both", -1, "the model's"},            \
    {NULL, "strand", CLI_CHOICE, &(l)->embed.strand, 0, 0, kmf_strand_names, NULL,            \
     "both: the mean over both, of a composition one for both", -1, "the model's"},           \
    {NULL, "stride", CLI_SIZE, &(l)->embed.stride, 1, 1LL << 31, NULL, "N",                   \
     "bases from one k-mer to the next, not of counts", 0, "the model's"},                    \
    {NULL, "exact", CLI_FLAG, &(l)->embed.exact, 0, 0, NULL, NULL,                            \
     "the tokens of the published tokenizer, as in embed", 0, NULL},                          \
    {NULL, "precision", CLI_CHOICE, &(l)->embed.precision, 0, 0, kmf_precision_names, NULL,   \
     "of the encoder's matrix products", -1, "f32"}
#define CLI_PROBE_OPTIONS(p)                                                                  \
    {NULL, "l2", CLI_REAL, &(p)->l2, 0, 0, NULL, "X",                                         \
     "the probe's: mean cross-entropy + X / 2 |W|^2 on standardised vectors; 0: chosen of "   \
     "1, 0.1, ... 1e-5", 0, NULL},                                                            \
    {NULL, "probe-scale", CLI_CHOICE, &(p)->scale, 0, 0, kmf_probe_scale_names, NULL,         \
     "what the probe divides columns by: each by its own deviation, or all by one number; "   \
     "auto: chosen on --dev", -1, "auto; column with --l2 X"}
/* clang-format on */

void cli_labelled_default(cli_labelled *l);
/* cli_check_inputs for all parts and what goes with them, of which it finds out the kind. */
int cli_labelled_check(cli_labelled *l, kmf_err *err);
/* Is out one of these files? */
bool cli_labelled_is_input(const cli_labelled *l, const char *out);
/* Reads and settles all parts, and tells what was left out. NULL with *err filled. */
kmf_samples *cli_labelled_read(const cli *run, const cli_labelled *l, kmf_samples_info *info,
                               kmf_err *err);
/*
 * The embedder of a model with l->embed, of which a model may have no more than strand and stride,
 * see some_have. identity: kmf_embedder_identity will be asked for.
 */
kmf_embedder *cli_labelled_embedder(const cli_labelled *l, const char *model, bool identity,
                                    kmf_err *err);
/* The vectors of all records, freed by free; NULL with *err filled. l->embed is what was asked. */
float *cli_labelled_embed(const cli *run, const cli_labelled *l, const kmf_samples *samples,
                          const kmf_samples_info *info, kmf_embedder *embedder, kmf_err *err);
/* The same of rows; *dim: their columns. */
float *cli_labelled_rows(const kmf_samples *samples, const kmf_samples_info *info, size_t *dim,
                         kmf_err *err);
/* Of an array, what nothing tells: how it was made, and names. */
void cli_warn_of_rows(const cli *run, const char *path, const kmf_row_file_info *info);

/* ---------------------------------------------------------------- tables of counts ------ */

/* What the commands that write a table of counts have in common. */
typedef struct cli_listing {
    const char *out;
    int format; /* kmf_counts_format */
    int full, observed;
    size_t min_count, max_size;
} cli_listing;

/* clang-format off */
#define CLI_LISTING_DEFAULT {"-", KMF_COUNTS_TSV, 0, 0, 1, 0}

/* Their rows in an option table. */
#define CLI_LISTING_OPTIONS(l)                                                                \
    {"o", "output", CLI_TEXT, &(l)->out, 0, 0, NULL, "FILE", "-: standard output", 0, NULL},  \
    {NULL, "format", CLI_CHOICE, &(l)->format, 0, 0, kmf_counts_format_names, NULL,           \
     "k-mers and counts as text; a model's vocab.txt in code order, or in DNABERT's; k-mers " \
     "and counts for programs", 0, NULL},                                                     \
    {NULL, "full", CLI_FLAG, &(l)->full, 0, 0, NULL, NULL,                                    \
     "list every possible k-mer, those never seen with count 0: the default up to K = 8 "     \
     "(protein: 3) if none are left out", 0, NULL},                                           \
    {NULL, "observed", CLI_FLAG, &(l)->observed, 0, 0, NULL, NULL,                            \
     "list the k-mers that occur: the default beyond, and all that a binary table can", 0, NULL}
#define CLI_SELECTION_OPTIONS(l)                                                              \
    {NULL, "min-count", CLI_SIZE, &(l)->min_count, 1, INT64_MAX, NULL, "N",                   \
     "leave out k-mers that occur less often", 0, NULL},                                      \
    {NULL, "max-size", CLI_SIZE, &(l)->max_size, 1, INT64_MAX, NULL, "N",                     \
     "keep the N most frequent k-mers; of equals the first in code order", 0, "all"}
/* clang-format on */

/*
 * Can a table with info's alphabet, k, canonical, min_count and max_size be written so? -1, or an
 * exit code after a message that tells why not.
 */
int cli_listing_check(const cli *run, const cli_listing *listing, const kmf_counts_info *info);
/* What lies beside the table: x.json, or nothing. */
const char *const *cli_listing_endings(const cli_listing *listing);
/*
 * Ends the counting and writes the table. A binary table of all k-mers is written as it is
 * made, and takes no memory.
 */
int cli_listing_finish(const cli *run, const cli_listing *listing, kmf_counter *counter,
                       const char *const *inputs, size_t n_inputs, kmf_counts_info *info,
                       kmf_err *err);
/*
 * Selects, and writes the table with its provenance, and tells how far it is; info says what was
 * kept of the table.
 */
int cli_listing_save(const cli *run, const cli_listing *listing, kmf_counts *counts,
                     const char *const *inputs, size_t n_inputs, kmf_pool *pool,
                     kmf_counts_info *info, kmf_err *err);

/* ---------------------------------------------------------------- progress -------------- */

/* A line that is renewed on a terminal, and printed every 30 s elsewhere. */
typedef struct cli_progress {
    const cli *run;
    double last; /* when it was shown */
    bool terminal;
} cli_progress;

void cli_progress_start(cli_progress *progress, const cli *run);
/* Is it time to show something? Cheap. */
bool cli_progress_due(cli_progress *progress);
void cli_progress_show(cli_progress *progress, const char *format, ...) KMF_PRINTF(2, 3);
/* "reading, 1.2 M letters", when it is time: doing says the first. */
void cli_progress_letters(cli_progress *progress, const char *doing, uint64_t letters);
/* The same of reading, as the library calls it: progress is a cli_progress. */
void cli_progress_reading(void *progress, uint64_t letters);
/* What part of a table of counts has been gone over; the same. */
void cli_progress_table(void *progress, double done);
/*
 * "3 records done, 400 tokens, 5 min left", when it is time; so many letters are worked on, after
 * so many seconds.
 */
void cli_progress_tokens(cli_progress *progress, cli_inputs *in, uint64_t records,
                         uint64_t tokens, uint64_t letters, double seconds);
/* How far a probe of this model's vectors is, when it is time. */
void cli_progress_probe(cli_progress *progress, const char *model,
                        const kmf_probe_progress *now);
/* Takes the line from the terminal. */
void cli_progress_end(void);

/* ---------------------------------------------------------------- signals --------------- */

/*
 * SIGINT, SIGTERM, SIGHUP and others that end a process remove what is half written, and end it
 * as they do by default. SIGPIPE and SIGXFSZ are ignored: a closed pipe or a full quota is a failed
 * write, and a run goes on whose messages nobody reads any more.
 */
void cli_catch_signals(const cli *run);
/*
 * After a write to standard output has failed: if nobody reads that any more, ends the process as
 * SIGPIPE does by default, without a word; not where that is ignored from the beginning.
 */
void cli_leave_closed_stdout(void);
/*
 * Between these two, which may nest, a first signal waits: outputs get their names together. over:
 * they have them, so that the run is over; what waited, and what comes, is too late to stop it.
 */
void cli_hold_signals(void);
void cli_release_signals(bool over);
/*
 * While they are delayed SIGINT, SIGTERM, SIGHUP and SIGUSR1 do not reach the calling thread, the
 * only one: what cli_leave_on_signals shall remove is made meanwhile.
 */
void cli_delay_signals(bool delay);
/*
 * From now on SIGINT, SIGTERM, SIGHUP and SIGUSR1 end the process with CLI_STOPPED, whatever it is
 * waiting for: for a job with checkpoints that has nothing to keep yet.
 * checkpoint:    one that a former run left, or NULL
 * folder, lock:  which it made for itself, and which go; borrowed, or NULL
 */
void cli_leave_on_signals(const cli *run, const char *checkpoint, const char *folder,
                          const char *lock);
/*
 * From now on SIGINT, SIGTERM, SIGHUP and SIGUSR1 only ask to stop; a second one of the first
 * three, a quarter of a second after the first or later, ends the process as above.
 */
void cli_watch_signals(void);
/* The first one then tells at once what is awaited, such as "stops after this step", unless -q. */
void cli_tell_of_stopping(const cli *run, const char *what);
/* Of a run that will have a checkpoint after so many minutes: what ends it before tells so. */
void cli_tell_of_checkpoints(const cli *run, double minutes);
/* The same, of a run whose checkpoint is there, as what ends it then tells. how: cli_to_go_on. */
void cli_watch_kept(const cli *run, const char *checkpoint, const char *how);
/* Ends the process so, once one has asked and the checkpoint is written. how: cli_to_go_on. */
_Noreturn void cli_leave(const cli *run, const char *checkpoint, const char *how);
/* Has a signal asked to stop? */
bool cli_asked_to_stop(void);

#endif
