/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Back-end of Cyclone's IDL compiler: `idlc -l apus X.idl` writes X.h and X.c (the compiler finds
 * libcycloneddsidlapus.so by the usual library search, or takes its path: -l ./libcycloneddsidlapus.so).
 *
 * Nothing is written unless everything in the file can be translated.
 */
#include "clashes.h"
#include "names.h"
#include "print.h"
#include <ctype.h>
#include <idl/file.h>
#include <string.h>
#include <unistd.h>

/** Entry point of an idlc back-end. Returns 0 or an idl_retcode_t. */
__attribute__((visibility("default"))) int generate(const idl_pstate_t *pstate,
						    const idlc_generator_config_t *config);

static char *output_name(const idl_pstate_t *pstate, const idlc_generator_config_t *config,
			 const char *extension)
{
	char *name = NULL;

	if (idl_generate_out_file(pstate->sources->path->name, config->output_dir, config->base_dir,
				  extension, &name, 0) != IDL_RETCODE_OK)
		return NULL;
	return name;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static char *guard_of(const char *header)
{
	char *guard = idl_printf("APUS_IDL_%s", base_name(header));

	for (char *p = guard; *p; p++)
		*p = (char)(isalnum((unsigned char)*p) ? toupper((unsigned char)*p) : '_');
	return guard;
}

/* Closes a written file; a failed or half-written one is removed. */
static int finish(FILE *file, const char *name, bool good)
{
	good = !ferror(file) && good;
	if (fclose(file) != 0)
		good = false;
	if (good)
		return IDL_RETCODE_OK;
	unlink(name);
	return IDL_RETCODE_NO_ACCESS;
}

static int write_all(const idl_pstate_t *pstate, const idlc_generator_config_t *config)
{
	struct idl_types types;
	char *header = NULL, *source = NULL;
	FILE *out;
	int rc;

	if (!idl_types_build(&types, pstate) || !idl_names_distinct(&types))
		return IDL_RETCODE_UNSUPPORTED;
	header = output_name(pstate, config, "h");
	source = output_name(pstate, config, "c");
	if (!header || !source || !(out = fopen(source, "w"))) {
		fprintf(stderr, "cannot write %s\n", source ? source : "the output");
		return IDL_RETCODE_NO_ACCESS;
	}
	rc = finish(out, source, idl_print_source(out, &types, base_name(header), config));
	if (rc != IDL_RETCODE_OK)
		return rc;
	out = fopen(header, "w");
	if (!out) {
		fprintf(stderr, "cannot write %s\n", header);
		unlink(source);
		return IDL_RETCODE_NO_ACCESS;
	}
	idl_print_header(out, &types, guard_of(header));
	return finish(out, header, true);
}

int generate(const idl_pstate_t *pstate, const idlc_generator_config_t *config)
{
	int rc = write_all(pstate, config);

	idl_free_all();
	return rc;
}
