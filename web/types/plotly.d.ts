/** The few functions of plotly.js that web/panels/plot.js uses. */
interface PlotAxis {
  _offset: number;
  _length: number;
  range: [number, number];
  l2p(value: number): number;
  p2l(pixel: number): number;
}
interface PlotDiv extends HTMLElement {
  _fullLayout?: { xaxis: PlotAxis; yaxis: PlotAxis; dragmode: string | false };
  on(event: string, listener: (detail: any) => unknown): void;
}
interface PlotlyStatic {
  react(div: HTMLElement, data: object[], layout: object, config: object): Promise<PlotDiv>;
  purge(div: HTMLElement): void;
  toImage(figure: HTMLElement | object, options: object): Promise<string>;
}
