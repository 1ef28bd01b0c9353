import { CREDENTIAL, RunningProgram, temporaryFolder } from './running-program.ts';

/** Gateways that are started by one test file, and stopped together. */
export class RunningGateways {
  readonly #stopping: (() => Promise<void>)[] = [];

  async start(
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ): Promise<RunningGateway> {
    const folder = temporaryFolder();
    const program = new RunningProgram(['gateway', ...args], {
      PORT: '0',
      ONCEWARD_ADMIN_PORT: '0',
      ONCEWARD_DATA: folder.path,
      ONCEWARD_LOG_LEVEL: 'warn',
      ...CREDENTIAL,
      ...env,
    });
    this.#stopping.push(async () => {
      await program.stop();
      folder.remove();
    });
    return new RunningGateway(program, await program.ready());
  }

  async stop(): Promise<void> {
    await Promise.all(this.#stopping.map((stop) => stop()));
  }
}

export class RunningGateway {
  readonly program: RunningProgram;
  readonly url: string;

  constructor(program: RunningProgram, url: string) {
    this.program = program;
    this.url = url;
  }

  /** A POST with a key and these headers. */
  post(
    path: string,
    key: string | null,
    headers: Readonly<Record<string, string>> = {},
    init: RequestInit = {},
  ): Promise<Response> {
    const named = key === null ? {} : { 'idempotency-key': key };
    return fetch(this.url + path, {
      method: 'POST',
      body: '{"a":1}',
      ...init,
      headers: { ...named, ...headers },
    });
  }
}
