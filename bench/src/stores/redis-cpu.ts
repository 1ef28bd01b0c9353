interface Client {
  sendCommand(args: string[]): Promise<unknown>;
}

/** Processor time of the server so far, its background threads included, in microseconds. */
export async function readRedisCpu(client: Client): Promise<number> {
  const info = String(await client.sendCommand(['INFO', 'cpu']));
  const seconds = (name: string) =>
    Number(new RegExp(`^used_cpu_${name}:([\\d.]+)`, 'm').exec(info)?.[1]);
  return (seconds('user') + seconds('sys')) * 1e6;
}
