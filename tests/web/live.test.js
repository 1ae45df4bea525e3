import assert from "node:assert/strict";
import { test } from "node:test";
import { backoff, Live, SILENCE_MS } from "../../web/data/live.js";

/** A fake environment with its own clock, and sockets that the test opens, closes and feeds. */
class World {
  time = 0;
  sockets = [];
  timers = new Map();
  serial = 0;
  now = () => this.time;
  random = () => 0.5;
  later = (run, ms) => {
    this.timers.set(++this.serial, { run, at: this.time + ms });
    return this.serial;
  };
  cancel = (timer) => this.timers.delete(timer);
  open = () => {
    const socket = {
      readyState: 0,
      sent: [],
      send: (text) => socket.sent.push(JSON.parse(text)),
      close: () => {
        socket.readyState = 3;
      },
    };
    this.sockets.push(socket);
    return socket;
  };
  get socket() {
    return this.sockets.at(-1);
  }
  connect() {
    this.socket.readyState = 1;
    this.socket.onopen();
  }
  say(frame) {
    this.socket.onmessage({ data: JSON.stringify(frame) });
  }
  drop(code = 1006) {
    this.socket.readyState = 3;
    this.socket.onclose({ code });
  }
  /** Advance time and run what is due, in order. */
  pass(ms) {
    const end = this.time + ms;
    for (;;) {
      const due = [...this.timers].filter(([, { at }]) => at <= end).sort((a, b) => a[1].at - b[1].at)[0];
      if (!due) break;
      this.timers.delete(due[0]);
      this.time = Math.max(this.time, due[1].at);
      due[1].run();
    }
    this.time = end;
  }
}

function started() {
  const world = new World();
  const live = new Live(world);
  live.start();
  return { world, live };
}

test("a subscription is sent when the socket opens, with its cursor, and receives its frames", () => {
  const { world, live } = started();
  const heard = [];
  live.subscribe(
    { view: "run", run: "r", names: ["loss"] },
    { cursor: () => 812, message: (frame) => heard.push(frame.cursor) },
  );
  world.connect();
  assert.deepEqual(world.socket.sent, [
    { type: "subscribe", id: 1, view: "run", run: "r", names: ["loss"], cursor: 812 },
  ]);
  world.say({ type: "run", id: 1, cursor: 830 });
  world.say({ type: "run", id: 9, cursor: 831 });
  assert.deepEqual(heard, [830]);
});

test("an ended subscription is sent to the server and receives nothing more", () => {
  const { world, live } = started();
  const heard = [];
  const end = live.subscribe({ view: "fleet" }, { message: (frame) => heard.push(frame) });
  world.connect();
  end();
  world.say({ type: "fleet", id: 1 });
  assert.deepEqual([world.socket.sent.at(-1), heard], [{ type: "unsubscribe", id: 1 }, []]);
});

test("after a reconnect it subscribes again from the newest cursor and reports the gap", () => {
  const { world, live } = started();
  let cursor = 1;
  let missed = 0;
  live.subscribe(
    { view: "run", run: "r" },
    { cursor: () => cursor, message: () => {}, reconnected: () => missed++ },
  );
  live.onReconnect(() => missed++);
  world.connect();
  world.say({ type: "heartbeat" });
  cursor = 7;
  world.drop();
  world.pass(300);
  assert.equal(missed, 0);
  world.connect();
  world.say({ type: "heartbeat" });
  assert.deepEqual([world.sockets.length, world.socket.sent[0].cursor, missed], [2, 7, 2]);
});

test("a socket that was lost before its first message is a reconnect, too", () => {
  const { world, live } = started();
  let missed = 0;
  live.onReconnect(() => missed++);
  world.connect();
  world.drop();
  world.pass(300);
  world.connect();
  world.say({ type: "heartbeat" });
  assert.equal(missed, 1);
});

test("when the database is back, failed requests are repeated, once", () => {
  const { world, live } = started();
  let missed = 0;
  live.subscribe({ view: "fleet" }, { message: () => {}, reconnected: () => missed++ });
  live.onReconnect(() => missed++);
  world.connect();
  for (const failing of [null, "connection refused", "connection refused", null, null]) {
    world.say({ type: "heartbeat", failing });
  }
  assert.equal(missed, 2);
});

test("a lost socket is retried at once; after a second failure it is offline and waits double", () => {
  const { world, live } = started();
  world.connect();
  world.drop();
  assert.equal(live.state.online, true);
  world.pass(250);
  world.drop();
  assert.equal(live.state.online, false);
  assert.equal(live.state.retry_ms, world.time + 500);
  assert.deepEqual(
    [0, 1, 2, 3, 4, 5, 9].map((tries) => backoff(tries, 0.5)),
    [250, 500, 1000, 2000, 4000, 8000, 8000],
  );
});

test("an open socket without a heartbeat for twelve seconds is offline and closed", () => {
  const { world, live } = started();
  world.connect();
  world.pass(SILENCE_MS - 1000);
  assert.equal(live.state.online, true);
  world.pass(1500);
  assert.deepEqual([live.state.online, world.sockets[0].readyState], [false, 3]);
  assert.ok(world.sockets.length > 1);
});

test("a heartbeat keeps it online and reports the server's lag", () => {
  const { world, live } = started();
  const beats = [];
  live.onBeat((beat) => beats.push(beat.now_ms));
  world.connect();
  for (let i = 0; i < 6; i++) {
    world.pass(5000);
    world.say({ type: "heartbeat", now_ms: i, backlog_bytes: 0, lag_ms: 40 });
  }
  assert.deepEqual([live.state.online, live.state.lag_ms, beats.length], [true, 40, 6]);
});

test("alerts reach their listeners without a subscription", () => {
  const { world, live } = started();
  const alerts = [];
  live.onAlert((alert) => alerts.push(alert.id));
  world.connect();
  world.say({ type: "alert", alert: { id: "x" } });
  assert.deepEqual(alerts, ["x"]);
});

test("a rejected login differs from an unreachable server", () => {
  const { world, live } = started();
  world.drop(4401);
  assert.equal(live.state.refused, true);
});

test("a socket that is opened and then rejected is retried less and less, and reloads nothing", () => {
  const { world, live } = started();
  let missed = 0;
  live.onReconnect(() => missed++);
  for (let second = 0; second < 60; second++) {
    if (world.socket.readyState === 0) {
      world.connect();
      world.drop(4401);
    }
    world.pass(1000);
  }
  assert.deepEqual([live.state.online, live.state.refused, missed], [false, true, 0]);
  assert.ok(world.sockets.length < 15, `${world.sockets.length} sockets`);
});

test("the next retry can be forced; a stopped one never retries", () => {
  const { world, live } = started();
  world.drop();
  live.hurry();
  assert.equal(world.sockets.length, 2);
  live.stop();
  world.drop();
  world.pass(60_000);
  assert.equal(world.sockets.length, 2);
});
