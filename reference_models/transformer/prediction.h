// Continuing a text that a request gives: the body of `predict`.
#ifndef TRANSFORMER_PREDICTION_H
#define TRANSFORMER_PREDICTION_H

#include "model.h"

// Writes {"output": …} somewhere else than the library's buffer, where it lives until the next prediction: for the body
// of LONG_OPERATION. False with the error set.
bool model_predict(const model *m, json request, json_writer *result);

#endif
