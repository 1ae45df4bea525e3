/** The sound for a new critical alert, synthesized here, only if the user enabled it. */

const KEY = "tocsin.sound";
/** Partials of the tone: frequency multiple, loudness, seconds to fade. */
const PARTIALS = [
  [0.5, 0.5, 2.4],
  [1, 1, 1.6],
  [1.2, 0.55, 1.2],
  [2, 0.35, 0.8],
  [2.7, 0.18, 0.5],
];
const STRIKE_HZ = 440;

/** @type {AudioContext | null} */
let audio = null;

/** Return whether the user enabled sound. */
export function soundOn() {
  try {
    return localStorage.getItem(KEY) === "on";
  } catch {
    return audio !== null;
  }
}

/**
 * Browsers allow sound only after a user gesture, so call this from a click handler.
 *
 * @param {boolean} on
 */
export function setSound(on) {
  try {
    localStorage.setItem(KEY, on ? "on" : "off");
  } catch {
    /* then it holds for this page only */
  }
  if (on) audio ??= new AudioContext();
  if (on) playAlert();
}

/** After a reload, sound needs a user gesture; the first one enables it. */
export function wakeOnGesture() {
  const wake = () => {
    if (soundOn()) audio ??= new AudioContext();
  };
  addEventListener("pointerdown", wake, { once: true });
  addEventListener("keydown", wake, { once: true });
}

export function playAlert() {
  if (!audio || !soundOn()) return;
  void audio.resume();
  for (const [multiple, loudness, seconds] of PARTIALS) {
    partial(audio, STRIKE_HZ * multiple, loudness * 0.12, seconds);
  }
}

/**
 * @param {AudioContext} context
 * @param {number} hz
 * @param {number} loudness
 * @param {number} seconds
 */
function partial(context, hz, loudness, seconds) {
  const tone = context.createOscillator();
  const gain = context.createGain();
  const now = context.currentTime;
  tone.frequency.value = hz;
  gain.gain.setValueAtTime(0, now);
  gain.gain.linearRampToValueAtTime(loudness, now + 0.005);
  gain.gain.exponentialRampToValueAtTime(0.0001, now + seconds);
  tone.connect(gain).connect(context.destination);
  tone.start(now);
  tone.stop(now + seconds);
}
