/* A stand-in for libnvidia-ml.so.1: as much of NVML as Stoker asks for, over numbers that a test sets.
   There is no hardware behind it. */
#include <unistd.h>

#define GPUS 16
enum { OK = 0, UNINITIALIZED = 1, NOT_SUPPORTED = 3, TIMEOUT = 10, UNKNOWN = 999 };

typedef struct { int index; } gpu;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned int gpu, memory; } rates;
typedef struct { gpu *device; unsigned long long type, data; unsigned int gpu_instance, compute_instance; } event;

static gpu gpus[GPUS];
static int running, starts, lost = -1, no_power;
static int events[GPUS], first_event, last_event, event_index[GPUS];

/* What a test sets. */
int count = 2, hang, broken;
unsigned int utilization[GPUS], milliwatts[GPUS], degrees[GPUS], retired[GPUS], pending[GPUS], failed[GPUS];
unsigned long long used[GPUS], total[GPUS], uncorrected[GPUS];
void lose(int index) { lost = index; }
void hide_power(void) { no_power = 1; }
void report_xid(int index, int xid) { event_index[last_event] = index; events[last_event++] = xid; }
int times_started(void) { return starts; }

static int ask(gpu *device) {
    while (hang) usleep(1000);
    if (broken || !running) return UNINITIALIZED;
    return device && device->index == lost ? 15 : OK;
}
#define ANSWER(device, place, value) do { int error = ask(device); if (!error) *(place) = (value); return error; } while (0)

const char *nvmlErrorString(int error) { return error == 15 ? "GPU is lost" : "Uninitialized"; }
int nvmlInitWithFlags(unsigned int flags) { (void)flags; if (broken) return 9; running = 1; starts++; return OK; }
int nvmlShutdown(void) { running = 0; return OK; }
int nvmlDeviceGetCount_v2(unsigned int *place) { ANSWER(0, place, count); }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, gpu **place) {
    gpus[index].index = index;
    ANSWER(0, place, &gpus[index]);
}
int nvmlDeviceGetIndex(gpu *device, unsigned int *place) { ANSWER(device, place, device->index); }
int nvmlDeviceGetUtilizationRates(gpu *device, rates *place) { ANSWER(device, &place->gpu, utilization[device->index]); }
int nvmlDeviceGetMemoryInfo(gpu *device, memory *place) {
    place->used = used[device->index];
    ANSWER(device, &place->total, total[device->index]);
}
int nvmlDeviceGetPowerUsage(gpu *device, unsigned int *place) {
    if (no_power) return NOT_SUPPORTED;
    ANSWER(device, place, milliwatts[device->index]);
}
int nvmlDeviceGetTemperature(gpu *device, int sensor, unsigned int *place) {
    (void)sensor;
    ANSWER(device, place, degrees[device->index]);
}
int nvmlDeviceGetTotalEccErrors(gpu *device, int type, int counter, unsigned long long *place) {
    ANSWER(device, place, type == 1 && counter == 0 ? uncorrected[device->index] : 0);
}
int nvmlDeviceGetRetiredPagesPendingStatus(gpu *device, int *place) { ANSWER(device, place, retired[device->index]); }
int nvmlDeviceGetRemappedRows(gpu *device, unsigned int *corrected, unsigned int *uncorrected_rows, unsigned int *waits,
                              unsigned int *place) {
    *corrected = *uncorrected_rows = 0;
    *waits = pending[device->index];
    ANSWER(device, place, failed[device->index]);
}
int nvmlEventSetCreate(void **place) { ANSWER(0, place, &running); }
int nvmlDeviceRegisterEvents(gpu *device, unsigned long long types, void *set) {
    (void)types, (void)set;
    return ask(device);
}
int nvmlEventSetWait_v2(void *set, event *place, unsigned int milliseconds) {
    (void)set, (void)milliseconds;
    if (first_event == last_event) return TIMEOUT;
    place->device = &gpus[event_index[first_event]];
    place->data = events[first_event++];
    return OK;
}
