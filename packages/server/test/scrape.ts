/** Values by series, such as `onceward_hits_total{tier="near"}`. */
export type Scrape = ReadonlyMap<string, number>;

export async function scrape(url: string): Promise<Scrape> {
  const response = await fetch(`${url}/metrics`);
  return parseMetrics(await response.text());
}

export function parseMetrics(text: string): Scrape {
  const series = new Map<string, number>();
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const at = line.lastIndexOf(' ');
    series.set(line.slice(0, at), Number(line.slice(at + 1)));
  }
  return series;
}

/** The names of the metrics, without their labels. */
export function namesOf(scraped: Scrape): Set<string> {
  return new Set([...scraped.keys()].map((series) => series.replace(/\{.*$/, '')));
}
