/** What every page receives. */
interface App {
  api: import("../data/api.js").Api;
  alerting: import("../data/alertingapi.js").AlertingApi;
  live: import("../data/live.js").Live;
  alerts: import("../data/alertstore.js").AlertStore;
  marks: import("../data/markstore.js").MarkStore;
  clock: import("../data/clock.js").Clock;
  session: Session;
  title: (text: string) => void;
}

/** An open page. `moved` is called when the address changed; true means that the page handled it. */
interface Page {
  close: () => void;
  moved?: () => boolean;
}

type OpenPage = (app: App, main: HTMLElement, id: string) => Page;
