# SPDX-License-Identifier: Apache-2.0
libfymodel_la_SOURCES += \
	annotations/model/eval.c \
	annotations/model/eval.h \
	annotations/model/model.c \
	annotations/model/model.h \
	annotations/model/nest.c \
	annotations/model/nest.h \
	annotations/model/operators.c \
	annotations/model/operators.h \
	annotations/model/validate.c
libfyannotations_la_SOURCES += \
	annotations/model/annotations.h
EXTRA_DIST += annotations/model/README.md
