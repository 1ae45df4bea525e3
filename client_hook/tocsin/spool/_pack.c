/* Pack a record into the log (entries.py, which has the format): struct does the same, but takes 6 us more when
   neither its code nor the data are in a cache, as after each step of a training. Optional: see outbox.py.

   It uses the stable ABI of CPython 3.11, so that one build serves all later versions, and runs with the GIL. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

#ifdef Py_GIL_DISABLED
#error "without a GIL the outbox takes a lock, and struct packs"
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the log is little-endian"
#endif

/* Memory of a log. */
typedef struct {
    PyObject_HEAD
    Py_buffer buffer;
} Target;

static int
target_init(Target *self, PyObject *args, PyObject *named)
{
    PyObject *memory;
    if (!PyArg_ParseTuple(args, "O", &memory))
        return -1;
    PyBuffer_Release(&self->buffer);
    return PyObject_GetBuffer(memory, &self->buffer, PyBUF_WRITABLE);
}

static void
target_dealloc(Target *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyBuffer_Release(&self->buffer);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* pack(at, shape, item, commit): pack the record (step, t_ns, names, *values), its commit word last. */
static PyObject *
target_pack(Target *self, PyObject *const *args, Py_ssize_t count)
{
    char *entry;
    Py_ssize_t at, k, width;
    PyObject *item;
    uint32_t shape;
    int64_t when[2];
    uint64_t commit;
    double value;

    if (count != 4 || !PyTuple_CheckExact(args[2])) {
        PyErr_SetString(PyExc_TypeError, "expected a position, a shape, a tuple and a commit word");
        return NULL;
    }
    at = PyLong_AsSsize_t(args[0]);
    shape = (uint32_t)PyLong_AsUnsignedLong(args[1]);
    item = args[2];
    commit = PyLong_AsUnsignedLongLong(args[3]);
    if (PyErr_Occurred())
        return NULL;
    width = PyTuple_Size(item) - 3;
    if (width < 0 || at < 0 || at + 32 + 8 * width > self->buffer.len) {
        PyErr_SetString(PyExc_IndexError, "the record does not fit");
        return NULL;
    }
    for (k = 0; k < 2; k++) {
        when[k] = PyLong_AsLongLong(PyTuple_GetItem(item, k));
        if (when[k] == -1 && PyErr_Occurred())
            return NULL;
    }
    entry = (char *)self->buffer.buf + at;
    memcpy(entry, &shape, 4);
    memcpy(entry + 4, when, 16);
    for (k = 0; k < width; k++) {
        value = PyFloat_AsDouble(PyTuple_GetItem(item, k + 3));
        if (value == -1.0 && PyErr_Occurred())
            return NULL;
        memcpy(entry + 24 + 8 * k, &value, 8);
    }
    __atomic_store_n((uint64_t *)(entry + 24 + 8 * width), commit, __ATOMIC_RELEASE);
    Py_RETURN_NONE;
}

static PyMethodDef target_methods[] = {
    {"pack", (PyCFunction)(void (*)(void))target_pack, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot target_slots[] = {
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, target_init},
    {Py_tp_dealloc, target_dealloc},
    {Py_tp_methods, target_methods},
    {0, NULL},
};

static PyType_Spec target_spec = {
    "tocsin.spool._pack.Target", sizeof(Target), 0, Py_TPFLAGS_DEFAULT, target_slots,
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_pack", NULL, -1, NULL, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC
PyInit__pack(void)
{
    PyObject *module, *type;
    if ((module = PyModule_Create(&definition)) == NULL)
        return NULL;
    type = PyType_FromSpec(&target_spec);
    if (type == NULL || PyModule_AddObjectRef(module, "Target", type) < 0) {
        Py_XDECREF(type);
        Py_DECREF(module);
        return NULL;
    }
    Py_DECREF(type);
    return module;
}
