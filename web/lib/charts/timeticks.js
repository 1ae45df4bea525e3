/** Ticks of a time axis: whole seconds, minutes, hours and days, in the user's time zone. */

const S = 1000;
const MIN = 60 * S;
const H = 60 * MIN;
const D = 24 * H;
const STRIDES = [
  1,
  2,
  5,
  10,
  20,
  50,
  100,
  200,
  500,
  S,
  2 * S,
  5 * S,
  10 * S,
  15 * S,
  30 * S,
  MIN,
  2 * MIN,
  5 * MIN,
  10 * MIN,
  15 * MIN,
  30 * MIN,
  H,
  2 * H,
  3 * H,
  6 * H,
  12 * H,
  D,
  2 * D,
  5 * D,
  7 * D,
  14 * D,
  28 * D,
  91 * D,
  182 * D,
  365 * D,
];
const MOST = 7;

/** @typedef {{ values: number[], labels: string[] }} Ticks */

/** @param {[number, number]} range ms */
const strideOf = ([a, b]) =>
  STRIDES.find((stride) => (b - a) / stride <= MOST) ?? Math.ceil((b - a) / MOST / (365 * D)) * 365 * D;

/**
 * Elapsed times: "0", "5 min", "1 h 30".
 *
 * @param {[number, number]} range ms
 * @returns {Ticks}
 */
export function spanTicks(range) {
  const stride = strideOf(range);
  const values = [];
  for (let k = Math.ceil(range[0] / stride); k * stride <= range[1]; k++) values.push(k * stride);
  return { values, labels: values.map((value) => spanLabel(value, stride)) };
}

/**
 * @param {number} ms
 * @param {number} stride between two labels
 */
export function spanLabel(ms, stride) {
  const size = Math.abs(ms);
  const sign = ms < 0 ? "\u2212" : "";
  if (!ms) return "0";
  if (stride < S) return `${sign}${Number((size / S).toFixed(3))} s`;
  if (stride < MIN) {
    return (
      sign + (size < MIN ? `${size / S} s` : `${Math.floor(size / MIN)}:${two(Math.round((size % MIN) / S))}`)
    );
  }
  if (size < H) return `${sign}${size / MIN} min`;
  if (stride < H) return `${sign}${Math.floor(size / H)}:${two((size % H) / MIN)} h`;
  return sign + (size % D || stride < D ? `${size / H} h` : `${size / D} d`);
}

/** @param {number} n */
const two = (n) => String(n).padStart(2, "0");

/**
 * Times of day at round values, in the user's time zone; a date at midnight.
 *
 * @param {[number, number]} range Unix ms
 * @param {(ms: number) => number} [offset] offset of local time from UTC in ms
 * @returns {Ticks}
 */
export function wallTicks(range, offset = localOffset) {
  const stride = strideOf(range);
  const shift = offset(range[0]);
  const values = [];
  for (let k = Math.ceil((range[0] + shift) / stride); k * stride - shift <= range[1]; k++) {
    values.push(k * stride - shift);
  }
  return { values, labels: values.map((value, i) => wallLabel(value + offset(value), stride, i === 0)) };
}

/** @param {number} ms */
const localOffset = (ms) => -new Date(ms).getTimezoneOffset() * MIN;

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/**
 * @param {number} local ms, read as if UTC
 * @param {number} stride
 * @param {boolean} first
 */
function wallLabel(local, stride, first) {
  const date = new Date(local);
  const day = `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
  if (stride >= 28 * D) return `${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
  if (stride >= D) return day;
  const seconds = stride < MIN ? `:${two(date.getUTCSeconds())}` : "";
  const fraction = stride < S ? `.${String(date.getUTCMilliseconds()).padStart(3, "0")}` : "";
  const time = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}${seconds}${fraction}`;
  const midnight = !(((local % D) + D) % D);
  return first || midnight ? `${time}<br>${day}` : time;
}
