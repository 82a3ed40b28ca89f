/* SPDX-License-Identifier: MIT */
/*
 * The script has to do the same for a user, who runs `gnuplot x.gp` beside the numbers, and for
 * us, who are in another folder and want the picture from standard output. So it takes two
 * variables from whoever runs it:
 *
 *   data        the numbers; if it is not defined, './x.tsv'
 *   to_stdout   if it is defined, no output file is set
 *
 * Names get a folder in front, for gnuplot takes a name that begins with '<' or '|' for a command.
 */
#include "plot/draft.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/point.h"

#include <math.h>
#include <string.h>

#define MARK "# kmerformer plot"

enum { DATA, SCRIPT };

static const char *const endings[] = {".tsv", ".gp"};

/* ---------------------------------------------------------------- text ------------------ */

/* Bytes of the character at p, 1 to 4; 0: not UTF-8, or a control character. */
static size_t character(const unsigned char *p)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {
        {0x80, 0x00, 0x20}, {0xe0, 0xc0, 0xa0}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t n = 1; n <= 4; n++) {
        if ((p[0] & forms[n - 1].mask) != forms[n - 1].lead)
            continue;
        uint32_t code = p[0] & (unsigned char)~forms[n - 1].mask;
        for (size_t i = 1; i < n; i++) {
            if ((p[i] & 0xc0) != 0x80)
                return 0;
            code = code << 6 | (p[i] & 0x3f);
        }
        bool surrogate = code >= 0xd800 && code <= 0xdfff;
        bool none = code == 0x7f || code == 0xfffe || code == 0xffff || code > 0x10ffff;
        return code < forms[n - 1].least || surrogate || none ? 0 : n;
    }
    return 0;
}

/*
 * Single quotes would look simpler, but a doubled one at the begin of a string ends it (5.4). In
 * double quotes all that gnuplot would act on is written as an octal number; of what it expands
 * before it looks at quotes, commands in `...` and macros @..., nothing is left to be found.
 */
static void quote(FILE *to, const char *text, size_t most, bool format)
{
    const unsigned char *p = (const unsigned char *)text;
    fputc('"', to);
    for (size_t i = 0; *p; i++) {
        size_t n = character(p);
        if (i == most) {
            fputs("...", to);
            break;
        }
        if (n == 0)
            fputc('?', to);
        else if (*p == '"')
            fputs("\\\"", to);
        else if (strchr("\\`@{}", *p))
            fprintf(to, "\\%03o", *p);
        else if (*p == '%' && format)
            fputs("%%", to);
        else
            fwrite(p, 1, n, to);
        p += n ? n : 1;
    }
    fputc('"', to);
}

void kmf_draft_quote(FILE *to, const char *text, size_t most)
{
    quote(to, text, most, false);
}

void kmf_draft_quote_tic(FILE *to, const char *text, size_t most)
{
    quote(to, text, most, true);
}

size_t kmf_draft_letters(const char *text, size_t most)
{
    size_t letters = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p; letters++) {
        size_t n = character(p);
        if (letters == most)
            return most + 3; /* "..." */
        p += n ? n : 1;
    }
    return letters;
}

void kmf_draft_remark(FILE *to, const char *key, const char *text)
{
    fprintf(to, "# %s: ", key);
    for (const char *p = text; *p; p++)
        fputc((unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p, to);
    fputc('\n', to);
}

/* ---------------------------------------------------------------- colours --------------- */

void kmf_draft_colours(FILE *to)
{
    /* P. Tol, Colour Schemes, SRON/EPS/TN/09-002, 2012: twelve that most colour-blind people can
       tell apart, in an order of ours: neighbours differ most. */
    fputs(
        "array colours[12] = [0x332288, 0xddaa33, 0xcc6677, 0x88ccee, 0x117733, 0xaa4499, \\\n"
        "    0x44aa99, 0x882255, 0x999933, 0x6699cc, 0x661100, 0xaa4466]\n"
        "array shapes[5] = [7, 5, 9, 13, 11]\n"
        "colour(i) = i < 0 ? 0xbbbbbb : colours[int(i) % 12 + 1]\n"
        "shape(i) = i < 0 ? 7 : shapes[int(i) / 12 % 5 + 1]\n",
        to);
}

int kmf_draft_thousands(double most, double *unit)
{
    int thousands = 0;
    for (*unit = 1; thousands < 3 && most / *unit >= 20000; thousands++)
        *unit *= 1000;
    return thousands;
}

void kmf_draft_palette(FILE *to)
{
    /* Nine places of viridis (S. van der Walt and N. Smith, 2015, public domain). */
    fputs("set palette defined (0 '#440154', 1 '#472d7b', 2 '#3b528b', 3 '#2c728e', \\\n"
          "    4 '#21918c', 5 '#28ae80', 6 '#5ec962', 7 '#addc30', 8 '#fde725')\n",
          to);
}

/* ---------------------------------------------------------------- begin ----------------- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *kmf_picture_name(const char *path, const char *ending, kmf_err *err)
{
    size_t n = strlen(path);
    if (n < 5 || !(kmf_ends_with(path, ".svg") || kmf_ends_with(path, ".png")) ||
        path[n - 5] == '/') {
        kmf_fail(err, KMF_EINVAL, "%s: the name of a picture ends in .svg or .png", path);
        return NULL;
    }
    for (const unsigned char *p = (const unsigned char *)path; *p; p += character(p))
        if (character(p) == 0) {
            kmf_fail(err, KMF_EINVAL, "the name of a picture is printable UTF-8");
            return NULL;
        }
    return kmf_strprintf(err, "%.*s%s", (int)n - 4, path, ending);
}

/* Numbers and scripts of other pictures may be overwritten, and nothing else. */
static int check_free(const char *path, kmf_err *err)
{
    char begin[sizeof MARK] = "";
    FILE *file = kmf_path_is_special(path) ? NULL : fopen(path, "rb");
    if (!file)
        return 0; /* it is not there, or saving it will tell */
    size_t got = fread(begin, 1, sizeof begin - 1, file);
    fclose(file);
    if (got == 0 || strcmp(begin, MARK) == 0)
        return 0;
    return kmf_fail(err, KMF_EIO,
                    "%s is there and is no file of a picture: it is not overwritten; give the "
                    "picture another name",
                    path);
}

static void begin_script(kmf_draft *d, int width, int height)
{
    FILE *to = d->script;
    const char *path = d->picture->path;
    width = d->picture->width ? d->picture->width : width;
    height = d->picture->height ? d->picture->height : height;
    /* Texts of pictures below this size are smaller, so that they leave room for the rest. A
       letter has a point, as gnuplot divides whole numbers without a rest. */
    double scale = fmin(1, fmin(width / 600.0, height / 400.0));
    fprintf(to, "width = %d\nheight = %d\nletter = %#.3g\n", width, height, 8.4 * scale);
    fputs("if (!exists('data')) data = './' . ", to);
    kmf_draft_quote(to, base_name(d->names[DATA]), SIZE_MAX);
    fputc('\n', to);
    if (kmf_ends_with(path, ".svg"))
        fprintf(to,
                "set terminal svg noenhanced size width,height font 'sans-serif,%.3g' "
                "background '#ffffff'\n",
                14 * scale);
    else
        fprintf(to,
                "set terminal pngcairo noenhanced size width,height font 'Sans,%.3g' "
                "background '#ffffff'\n",
                11 * scale);
    fputs("if (!exists('to_stdout')) set output './' . ", to);
    kmf_draft_quote(to, base_name(path), SIZE_MAX);
    fputs("\nset encoding utf8\n"
          "set datafile separator tab\n"
          "set datafile missing 'NA'\n"
          "set border 3 linecolor rgb '#555555'\n"
          "set tics nomirror out scale 0.6 textcolor rgb '#222222'\n"
          "set key outside right top Left reverse samplen 1.2 spacing 1.1\n",
          to);
}

static bool is_size(int pixels)
{
    return pixels == 0 || (pixels >= KMF_PIXELS_MIN && pixels <= KMF_PIXELS_MAX);
}

int kmf_draft_begin(kmf_draft *draft, const kmf_picture *picture, const char *kind, int width,
                    int height, kmf_err *err)
{
    err = kmf_err_or(err, &(kmf_err){0});
    *draft = (kmf_draft){.picture = picture, .before = kmf_point_begin()};
    if (!is_size(picture->width) || !is_size(picture->height))
        return kmf_fail(err, KMF_EINVAL, "a picture of %d x %d pixels: there are %d to %d",
                        picture->width, picture->height, KMF_PIXELS_MIN, KMF_PIXELS_MAX);
    for (int i = 0; i < 2; i++) {
        draft->names[i] = kmf_picture_name(picture->path, endings[i], err);
        if (!draft->names[i])
            return (int)err->code;
        int status = check_free(draft->names[i], err);
        if (status < 0)
            return status;
    }
    draft->data = open_memstream(&draft->text[DATA], &draft->len[DATA]);
    draft->script = open_memstream(&draft->text[SCRIPT], &draft->len[SCRIPT]);
    if (!draft->data || !draft->script)
        return kmf_fail(err, KMF_ENOMEM, "out of memory for a picture");
    fprintf(draft->data, MARK " %s %s: the numbers of a picture\n", kind, kmf_version());
    if (picture->command_line)
        kmf_draft_remark(draft->data, "command", picture->command_line);
    fprintf(draft->script,
            MARK " %s %s: to draw it again, run gnuplot on this file in its folder\n", kind,
            kmf_version());
    begin_script(draft, width, height);
    return 0;
}

/* ---------------------------------------------------------------- finish ---------------- */

/* What our own run says before the script. Freed by free. */
static char *own_begin(const kmf_draft *d, kmf_err *err)
{
    char *text = NULL;
    size_t n = 0;
    const char *name = d->names[DATA];
    FILE *to = open_memstream(&text, &n);
    if (!to) {
        kmf_fail(err, KMF_ENOMEM, "out of memory for a picture");
        return NULL;
    }
    fprintf(to, "to_stdout = 1\ndata = %s", name[0] == '/' ? "" : "'./' . ");
    kmf_draft_quote(to, name, SIZE_MAX);
    fputc('\n', to);
    fclose(to);
    return text;
}

static int draw(const kmf_draft *d, kmf_err *err)
{
    kmf_err why = {0};
    char *begin = own_begin(d, err);
    if (!begin)
        return KMF_ENOMEM;
    int status = kmf_gnuplot(d->picture->path, begin, d->text[SCRIPT], d->len[SCRIPT], &why);
    kmf_free(begin);
    return status == 0
               ? 0
               : kmf_fail(err, (kmf_code)status, "%s; the data is in %s, the script in %s",
                          why.msg, d->names[DATA], d->names[SCRIPT]);
}

int kmf_draft_finish(kmf_draft *draft, kmf_err *err)
{
    bool lost = ferror(draft->data) || ferror(draft->script);
    lost |= fclose(draft->data) != 0;
    lost |= fclose(draft->script) != 0;
    draft->data = draft->script = NULL;
    if (lost)
        return kmf_fail(err, KMF_ENOMEM, "out of memory for a picture");
    for (int i = 0; i < 2; i++) {
        int status = kmf_file_save(draft->names[i], draft->text[i], draft->len[i], err);
        if (status < 0)
            return status;
    }
    return draft->picture->data_only ? 0 : draw(draft, err);
}

void kmf_draft_free(kmf_draft *draft)
{
    if (draft->data)
        fclose(draft->data);
    if (draft->script)
        fclose(draft->script);
    for (int i = 0; i < 2; i++) {
        kmf_free(draft->names[i]);
        kmf_free(draft->text[i]);
    }
    kmf_point_end(draft->before);
    *draft = (kmf_draft){0};
}
