/* SPDX-License-Identifier: Apache-2.0 */
/* An application in C or C++ (it is compiled as both): uses a function, an object and a type of libapus. */
#include <apus/apus.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
	struct apus_qos qos;
	char version[32];

	apus_qos_writer_default(&qos);
	snprintf(version, sizeof(version), "%d.%d.%d", APUS_VERSION_MAJOR, APUS_VERSION_MINOR,
		 APUS_VERSION_PATCH);
	if (strcmp(apus_version(), version) != 0 || qos.reliability != APUS_RELIABLE)
		return 1;
	if (strcmp(apus_shape_type.name, "ShapeType") != 0)
		return 2;
	printf("%s\n", apus_version());
	return 0;
}
