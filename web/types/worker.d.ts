/** What the service worker uses of its global scope; the DOM's types have no service workers. */
interface ServiceWorkerScope {
  readonly registration: ServiceWorkerRegistration;
  readonly location: Location;
  readonly clients: {
    claim(): Promise<void>;
    matchAll(options: { type: "window"; includeUncontrolled: boolean }): Promise<WindowClient[]>;
    openWindow(address: string): Promise<unknown>;
  };
  skipWaiting(): Promise<void>;
  addEventListener(type: "install" | "activate", run: (event: ExtendableEvent) => void): void;
  addEventListener(type: "fetch", run: (event: FetchEvent) => void): void;
  addEventListener(type: "push", run: (event: PushEvent) => void): void;
  addEventListener(type: "notificationclick", run: (event: NotificationClick) => void): void;
  addEventListener(type: "pushsubscriptionchange", run: (event: PushSubscriptionChange) => void): void;
}

interface WindowClient {
  readonly url: string;
  focus(): Promise<unknown>;
  postMessage(message: { type: "open"; path: string }): void;
}

interface ExtendableEvent extends Event {
  waitUntil(work: Promise<unknown>): void;
}

interface FetchEvent extends ExtendableEvent {
  readonly request: Request;
  respondWith(response: Promise<Response>): void;
}

interface PushEvent extends ExtendableEvent {
  readonly data: { json(): PushedMessage } | null;
}

interface NotificationClick extends ExtendableEvent {
  readonly notification: Notification;
  readonly action: string;
}

interface PushSubscriptionChange extends ExtendableEvent {
  readonly newSubscription?: PushSubscription | null;
  readonly oldSubscription?: PushSubscription | null;
}

/**
 * A message of the server (notify/channels/push.py). `open`: number of open incidents; `ack`: the content of
 * the acknowledge link, "" if there is nothing to acknowledge.
 */
interface PushedMessage {
  title: string;
  body: string;
  tag: string;
  path: string;
  open: number;
  ack: string;
}
