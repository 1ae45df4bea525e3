/* Append records to the log (entries.py, which has the format), and the usual call of ``run.log``: the same as
   in tail.py and in api/run.py, but each Python function and each new object costs about 1 us when neither code
   nor data are in a cache, as after each step of a training. Optional.

   It uses the stable ABI of CPython 3.11, so that one build serves all later versions, and runs with the GIL. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

#ifdef Py_GIL_DISABLED
#error "without a GIL the outbox takes a lock, and struct packs"
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the log is little-endian"
#endif

#define MOST_STEP (1LL << 53)
#define KNOWN 8

static PyObject *s_head, *s_end, *s_shapes, *s_names, *s_put, *s_on_log, *s_is_alone, *s_report_error, *s_log;

/* The members have the meanings of tail.py. */
typedef struct {
    PyObject_HEAD
    PyObject *block, *elsewhere, *plain;
    unsigned long long commit;
    long long steps, last_step;
    int has_step;
    Py_buffer buffer;
    /* The newest names, the block in which they are, and their shape there. */
    PyObject *names, *named;
    uint32_t shape;
    Py_ssize_t size, end;
} Tail;

/* A place for one record. */
typedef struct {
    Py_ssize_t at, head;
    unsigned long long commit;
} Place;

static void
keep(PyObject **place, PyObject *value)
{
    PyObject *old = *place;
    Py_XINCREF(value);
    *place = value;
    Py_XDECREF(old);
}

static Py_ssize_t
number_of(PyObject *owner, PyObject *name)
{
    PyObject *value = PyObject_GetAttr(owner, name);
    Py_ssize_t number = value == NULL ? -1 : PyLong_AsSsize_t(value);
    Py_XDECREF(value);
    return number;
}

/* Find the shape of these names in the block. Return 1, 0 if they are new in it, or -1 with an exception. */
static int
find_shape(Tail *self, PyObject *names)
{
    PyObject *shapes, *shape;
    unsigned long number = 0;
    Py_ssize_t size = 0, end;

    if ((shapes = PyObject_GetAttr(self->block, s_shapes)) == NULL)
        return -1;
    shape = PyDict_GetItemWithError(shapes, names);
    if (shape != NULL) {
        number = PyLong_AsUnsignedLong(PyTuple_GetItem(shape, 0));
        size = PyLong_AsSsize_t(PyTuple_GetItem(shape, 1));
    }
    Py_DECREF(shapes);
    if (shape == NULL || PyErr_Occurred())
        return PyErr_Occurred() ? -1 : 0;
    if ((end = number_of(self->block, s_end)) < 0)
        return -1;
    keep(&self->names, names);
    keep(&self->named, self->block);
    self->shape = (uint32_t)number;
    self->size = size;
    self->end = end;
    return 1;
}

/* Take a place for a record with these names. Return 1, 0 if tail.elsewhere must find one, or -1. No other
   thread and no signal handler can run between reading ``head`` and changing it. */
static int
take_place(Tail *self, PyObject *names, Place *place)
{
    PyObject *head;
    int found;

    if (self->block == NULL || self->buffer.buf == NULL)
        return 0;
    if ((names != self->names || self->block != self->named) && (found = find_shape(self, names)) != 1)
        return found;
    if ((place->at = number_of(self->block, s_head)) < 0)
        return -1;
    place->head = place->at + self->size;
    if (place->head > self->end || place->head > self->buffer.len)
        return 0;
    if ((head = PyLong_FromSsize_t(place->head)) == NULL)
        return -1;
    found = PyObject_SetAttr(self->block, s_head, head);
    Py_DECREF(head);
    place->commit = self->commit;
    self->commit += found == 0;
    return found == 0 ? 1 : -1;
}

/* Complete a record: what makes it one is written last. */
static void
commit(Tail *self, char *entry, uint32_t shape, long long step, long long t_ns, Py_ssize_t width, uint64_t word)
{
    int64_t when[2] = {step, t_ns};

    memcpy(entry, &shape, 4);
    memcpy(entry + 4, when, 16);
    __atomic_store_n((uint64_t *)(entry + 24 + 8 * width), word, __ATOMIC_RELEASE);
    if (!self->has_step || step != self->last_step) {
        self->has_step = 1;
        self->last_step = step;
        self->steps++;
    }
}

/* Pack (step, t_ns, names, *values) at its place. Return 1, 0 if the log was discarded meanwhile, or -1. */
static int
pack(Tail *self, PyObject *item, Place *place, uint32_t shape, Py_ssize_t size)
{
    Py_ssize_t k, width = PyTuple_Size(item) - 3;
    long long step, t_ns;
    PyObject *given;
    double value;

    if (size != 32 + 8 * width) {
        PyErr_SetString(PyExc_TypeError, "not as many values as names");
        return -1;
    }
    step = PyLong_AsLongLong(PyTuple_GetItem(item, 0));
    if (step == -1 && PyErr_Occurred())
        return -1;
    t_ns = PyLong_AsLongLong(PyTuple_GetItem(item, 1));
    if (t_ns == -1 && PyErr_Occurred())
        return -1;
    for (k = 0; k < width; k++) {
        given = PyTuple_GetItem(item, k + 3);
        value = PyFloat_AsDouble(given); /* may run Python code, and the log may move meanwhile */
        if (value == -1.0 && PyErr_Occurred())
            return -1;
        if (place->head > self->buffer.len)
            return 0;
        memcpy((char *)self->buffer.buf + place->at + 24 + 8 * k, &value, 8);
    }
    if (place->head > self->buffer.len)
        return 0;
    commit(self, (char *)self->buffer.buf + place->at, shape, step, t_ns, width, place->commit);
    return 1;
}

static PyObject *
put_item(Tail *self, PyObject *item, PyObject *may_wait)
{
    PyObject *names, *block, *result = NULL;
    Place place;
    int done;

    if (!PyTuple_CheckExact(item) || PyTuple_Size(item) < 3) {
        PyErr_SetString(PyExc_TypeError, "expected (step, t_ns, names, *values)");
        return NULL;
    }
    names = PyTuple_GetItem(item, 2);
    done = take_place(self, names, &place);
    if (done < 0)
        return NULL;
    if (done == 0)
        return PyObject_CallFunctionObjArgs(self->elsewhere, item, may_wait, NULL);
    block = self->block;
    Py_INCREF(block);
    if (pack(self, item, &place, self->shape, self->size) >= 0)
        result = Py_NewRef(Py_None);
    else if (PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_Clear();
        result = PyObject_CallFunction(self->plain, "OOnnK", item, block, place.at, place.head, place.commit);
    }
    Py_DECREF(block);
    return result;
}

static PyObject *
tail_put(Tail *self, PyObject *const *args, Py_ssize_t count)
{
    if (count != 1 && count != 2) {
        PyErr_SetString(PyExc_TypeError, "expected a record, and whether the call may wait");
        return NULL;
    }
    return put_item(self, args[0], count == 2 ? args[1] : Py_False);
}

static int
set_memory(Tail *self, PyObject *memory, void *closure)
{
    Py_buffer fresh = {0};

    if (memory != NULL && memory != Py_None && PyObject_GetBuffer(memory, &fresh, PyBUF_WRITABLE) < 0)
        return -1;
    PyBuffer_Release(&self->buffer);
    self->buffer = fresh;
    return 0;
}

static PyObject *
get_last_step(Tail *self, void *closure)
{
    return self->has_step ? PyLong_FromLongLong(self->last_step) : Py_NewRef(Py_None);
}

static int
tail_traverse(Tail *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->block);
    Py_VISIT(self->elsewhere);
    Py_VISIT(self->plain);
    Py_VISIT(self->names);
    Py_VISIT(self->named);
    return 0;
}

static int
tail_clear(Tail *self)
{
    Py_CLEAR(self->block);
    Py_CLEAR(self->elsewhere);
    Py_CLEAR(self->plain);
    Py_CLEAR(self->names);
    Py_CLEAR(self->named);
    return 0;
}

static void
tail_dealloc(Tail *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);

    PyObject_GC_UnTrack(self);
    tail_clear(self);
    PyBuffer_Release(&self->buffer);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *tail_logger(Tail *self, PyObject *args);

static PyMethodDef tail_methods[] = {
    {"put", (PyCFunction)(void (*)(void))tail_put, METH_FASTCALL, NULL},
    {"logger", (PyCFunction)tail_logger, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef tail_members[] = {
    {"block", T_OBJECT, offsetof(Tail, block), 0, NULL},
    {"elsewhere", T_OBJECT, offsetof(Tail, elsewhere), 0, NULL},
    {"plain", T_OBJECT, offsetof(Tail, plain), 0, NULL},
    {"commit", T_ULONGLONG, offsetof(Tail, commit), 0, NULL},
    {"steps", T_LONGLONG, offsetof(Tail, steps), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef tail_properties[] = {
    {"memory", NULL, (setter)set_memory, NULL, NULL},
    {"last_step", (getter)get_last_step, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot tail_slots[] = {
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_dealloc, tail_dealloc},
    {Py_tp_traverse, tail_traverse},
    {Py_tp_clear, tail_clear},
    {Py_tp_methods, tail_methods},
    {Py_tp_members, tail_members},
    {Py_tp_getset, tail_properties},
    {0, NULL},
};

static PyType_Spec tail_spec = {
    "tocsin.spool._pack.Tail", sizeof(Tail), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, tail_slots,
};

/* The names of one call of log in the script. */
typedef struct {
    PyObject *given; /* those of the call, with "step"; each call has its own tuple */
    PyObject *names; /* those that are sent */
    Py_ssize_t step;
} Call;

/* ``run.log``. It reads the state that may change between two calls where Python does. */
typedef struct {
    PyObject_HEAD
    PyObject *run, *reporter, *counter; /* counter: StepCount */
    PyObject *count, *take, *clock;     /* functions: counter.count_from, run.take, monotonic_ns */
    PyObject *put;                      /* the outbox's own put, which is that of ``tail`` */
    Tail *tail;
    long long offset_ns;
    PyObject *names; /* reporter.names, for which the calls are known */
    Call calls[KNOWN];
} Logger;

static void
forget_calls(Logger *self)
{
    int k;

    for (k = 0; k < KNOWN; k++) {
        Py_CLEAR(self->calls[k].given);
        Py_CLEAR(self->calls[k].names);
    }
}

/* Return the names without "step", and its place; NULL without an exception if it is not given. */
static PyObject *
names_of(PyObject *given, Py_ssize_t *step)
{
    Py_ssize_t k, to = 0, width = PyTuple_Size(given);
    PyObject *name, *names;

    *step = -1;
    for (k = 0; k < width; k++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GetItem(given, k), "step") == 0)
            *step = k;
    if (*step < 0 || (names = PyTuple_New(width - 1)) == NULL)
        return NULL;
    for (k = 0; k < width; k++) {
        name = PyTuple_GetItem(given, k);
        if (k != *step)
            PyTuple_SetItem(names, to++, Py_NewRef(name));
    }
    return names;
}

/* Return what is known about a call with these names; NULL if run.take must handle it. */
static Call *
known_call(Logger *self, PyObject *given)
{
    Call *call = &self->calls[((uintptr_t)given >> 4) % KNOWN];
    PyObject *names, *sent, *known = PyObject_GetAttr(self->reporter, s_names);
    Py_ssize_t step;

    if (known == NULL)
        return NULL;
    if (known != self->names) { /* the hook reports further names, so that others are sent as logged/<name> */
        forget_calls(self);
        keep(&self->names, known);
    }
    Py_DECREF(known);
    if (call->given == given)
        return call;
    if ((names = names_of(given, &step)) == NULL)
        return NULL;
    sent = PyDict_GetItemWithError(known, names);
    Py_DECREF(names);
    if (sent == NULL)
        return NULL;
    keep(&call->given, given);
    keep(&call->names, sent);
    call->step = step;
    return call;
}

/* Return whether this is the usual call: a step, floats, and no tracker is mirrored. */
static int
is_usual(Logger *self, PyObject *const *args, Call *call, long long *step)
{
    Py_ssize_t k, count = PyTuple_Size(call->names) + 1;
    PyObject *on_log;
    int overflow;

    for (k = 0; k < count; k++)
        if (k != call->step && !PyFloat_CheckExact(args[k]))
            return 0;
    if (!PyLong_CheckExact(args[call->step]))
        return 0;
    *step = PyLong_AsLongLongAndOverflow(args[call->step], &overflow);
    if (overflow || *step < -MOST_STEP || *step > MOST_STEP)
        return 0;
    on_log = PyObject_GetAttr(self->run, s_on_log);
    Py_XDECREF(on_log);
    return on_log == Py_None;
}

/* Put the record through the reporter, which has more to do with it, or through tail.elsewhere. */
static int
put_through(Logger *self, PyObject *put, PyObject *const *args, PyObject *names, Py_ssize_t step, long long t_ns)
{
    Py_ssize_t k, to = 3, count = PyTuple_Size(names) + 1;
    PyObject *result = NULL, *time = PyLong_FromLongLong(t_ns), *item = PyTuple_New(count + 2);

    if (item != NULL && time != NULL) {
        PyTuple_SetItem(item, 0, Py_NewRef(args[step]));
        PyTuple_SetItem(item, 1, Py_NewRef(time));
        PyTuple_SetItem(item, 2, Py_NewRef(names));
        for (k = 0; k < count; k++)
            if (k != step)
                PyTuple_SetItem(item, to++, Py_NewRef(args[k]));
        result = PyObject_CallFunctionObjArgs(put, item, Py_True, NULL);
    }
    Py_XDECREF(item);
    Py_XDECREF(time);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

static int
put_values(Logger *self, PyObject *const *args, PyObject *names, Py_ssize_t at_step, long long step)
{
    Tail *tail = self->tail;
    PyObject *put, *now;
    Py_ssize_t k, width = PyTuple_Size(names);
    long long t_ns;
    Place place;
    double value;
    char *entry;
    int done = 0;

    if ((now = PyObject_CallNoArgs(self->clock)) == NULL)
        return -1;
    t_ns = PyLong_AsLongLong(now) + self->offset_ns;
    Py_DECREF(now);
    if ((put = PyObject_GetAttr(self->reporter, s_put)) == NULL)
        return -1;
    if (put == self->put)
        done = take_place(tail, names, &place);
    if (done == 0)
        done = put_through(self, put, args, names, at_step, t_ns);
    else if (done == 1) {
        entry = (char *)tail->buffer.buf + place.at;
        for (k = 0; k < width; k++) {
            value = PyFloat_AsDouble(args[k + (k >= at_step)]);
            memcpy(entry + 24 + 8 * k, &value, 8);
        }
        commit(tail, entry, tail->shape, step, t_ns, width, place.commit);
    }
    Py_DECREF(put);
    return done < 0 ? -1 : 0;
}

static int
log_usual(Logger *self, PyObject *const *args, PyObject *names, Py_ssize_t at_step, long long step)
{
    PyObject *result, *is_alone = PyObject_GetAttr(self->counter, s_is_alone);

    Py_XDECREF(is_alone);
    if (is_alone == NULL)
        return -1;
    if (is_alone == Py_True) {
        if ((result = PyObject_CallFunctionObjArgs(self->count, args[at_step], names, NULL)) == NULL)
            return -1;
        Py_DECREF(result);
    }
    return put_values(self, args, names, at_step, step);
}

static PyObject *
log_unusual(Logger *self, PyObject *const *args, Py_ssize_t count, PyObject *given)
{
    Py_ssize_t k, width = given == NULL ? 0 : PyTuple_Size(given);
    PyObject *name, *step = Py_None, *result = NULL, *values = PyDict_New(), *more = PyTuple_New(count);

    if (values == NULL || more == NULL)
        goto done;
    for (k = 0; k < count; k++)
        PyTuple_SetItem(more, k, Py_NewRef(args[k]));
    for (k = 0; k < width; k++) {
        name = PyTuple_GetItem(given, k);
        if (PyUnicode_CompareWithASCIIString(name, "step") == 0)
            step = args[count + k];
        else if (PyDict_SetItem(values, name, args[count + k]) < 0)
            goto done;
    }
    result = PyObject_CallFunctionObjArgs(self->take, more, step, values, NULL);
done:
    Py_XDECREF(values);
    Py_XDECREF(more);
    return result;
}

static PyObject *
report_error(Logger *self)
{
    PyObject *kind, *error, *trace, *result;

    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return NULL;
    PyErr_Fetch(&kind, &error, &trace);
    PyErr_NormalizeException(&kind, &error, &trace);
    result = PyObject_CallMethodObjArgs(self->reporter, s_report_error, s_log, error, NULL);
    Py_XDECREF(kind);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    return result;
}

static PyObject *
logger_log(Logger *self, PyObject *const *args, Py_ssize_t count, PyObject *given)
{
    Call *call = count || given == NULL ? NULL : known_call(self, given);
    PyObject *names;
    long long step;
    int done;

    if (call == NULL || !is_usual(self, args, call, &step)) {
        PyErr_Clear();
        return log_unusual(self, args, count, given);
    }
    names = Py_NewRef(call->names); /* what it calls may log, too */
    done = log_usual(self, args, names, call->step, step);
    Py_DECREF(names);
    return done < 0 ? report_error(self) : Py_NewRef(Py_None);
}

static int
logger_traverse(Logger *self, visitproc visit, void *arg)
{
    int k;

    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->run);
    Py_VISIT(self->reporter);
    Py_VISIT(self->counter);
    Py_VISIT(self->count);
    Py_VISIT(self->take);
    Py_VISIT(self->clock);
    Py_VISIT(self->put);
    Py_VISIT((PyObject *)self->tail);
    Py_VISIT(self->names);
    for (k = 0; k < KNOWN; k++) {
        Py_VISIT(self->calls[k].given);
        Py_VISIT(self->calls[k].names);
    }
    return 0;
}

static int
logger_clear(Logger *self)
{
    Py_CLEAR(self->run);
    Py_CLEAR(self->reporter);
    Py_CLEAR(self->counter);
    Py_CLEAR(self->count);
    Py_CLEAR(self->take);
    Py_CLEAR(self->clock);
    Py_CLEAR(self->put);
    Py_CLEAR(self->tail);
    Py_CLEAR(self->names);
    forget_calls(self);
    return 0;
}

static void
logger_dealloc(Logger *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);

    PyObject_GC_UnTrack(self);
    logger_clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

PyDoc_STRVAR(log_doc, "log($self, /, *given, step=None, **values)\n--\n\n"
                      "Add named numbers to a step; see Run.log.");

static PyMethodDef logger_methods[] = {
    {"log", (PyCFunction)(void (*)(void))logger_log, METH_FASTCALL | METH_KEYWORDS, log_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot logger_slots[] = {
    {Py_tp_dealloc, logger_dealloc},
    {Py_tp_traverse, logger_traverse},
    {Py_tp_clear, logger_clear},
    {Py_tp_methods, logger_methods},
    {0, NULL},
};

static PyType_Spec logger_spec = {
    "tocsin.spool._pack.Logger", sizeof(Logger), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, logger_slots,
};

static PyTypeObject *logger_type;

/* logger(run, reporter, counter, count, take, clock, put, offset_ns): make the ``log`` of a run. */
static PyObject *
tail_logger(Tail *self, PyObject *args)
{
    Logger *made = (Logger *)PyType_GenericAlloc(logger_type, 0);
    PyObject *log, **places[] = {&made->run,  &made->reporter, &made->counter, &made->count,
                                 &made->take, &made->clock,    &made->put};
    size_t k;

    if (made == NULL)
        return NULL;
    if (!PyArg_ParseTuple(args, "OOOOOOOL", places[0], places[1], places[2], places[3], places[4], places[5],
                          places[6], &made->offset_ns)) {
        memset(places[0], 0, sizeof(PyObject *) * 7);
        Py_DECREF(made);
        return NULL;
    }
    for (k = 0; k < 7; k++)
        Py_INCREF(*places[k]);
    made->tail = (Tail *)Py_NewRef((PyObject *)self);
    log = PyObject_GetAttr((PyObject *)made, s_log);
    Py_DECREF(made);
    return log;
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_pack", NULL, -1, NULL, NULL, NULL, NULL, NULL,
};

static int
add_names(void)
{
    struct {
        PyObject **place;
        const char *text;
    } all[] = {
        {&s_head, "head"},     {&s_end, "end"},           {&s_shapes, "shapes"},
        {&s_names, "names"},   {&s_put, "put"},           {&s_on_log, "on_log"},
        {&s_is_alone, "is_alone"}, {&s_report_error, "report_error"}, {&s_log, "log"},
    };
    size_t k;

    for (k = 0; k < sizeof(all) / sizeof(all[0]); k++)
        if ((*all[k].place = PyUnicode_InternFromString(all[k].text)) == NULL)
            return -1;
    return 0;
}

PyMODINIT_FUNC
PyInit__pack(void)
{
    PyObject *tail_type, *module = PyModule_Create(&definition);

    if (module == NULL)
        return NULL;
    logger_type = (PyTypeObject *)PyType_FromSpec(&logger_spec);
    tail_type = PyType_FromSpec(&tail_spec);
    if (logger_type == NULL || tail_type == NULL || add_names() < 0
        || PyModule_AddObjectRef(module, "Tail", tail_type) < 0)
        Py_CLEAR(module);
    Py_XDECREF(tail_type);
    return module;
}
