export interface ServerEvent {
  readonly name: string;
  readonly data: string;
}

const LONGEST_EVENT = 1_048_576;

/** Reads server-sent events off a response, as far as ours use the format. */
export async function* readEvents(response: Response): AsyncIterable<ServerEvent> {
  if (response.body === null) return;
  let text = '';
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    if (text.length > LONGEST_EVENT) throw new Error('an event of the server is too long');
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const event = parse(text.slice(0, end));
      text = text.slice(end + 2);
      if (event !== null) yield event;
    }
  }
}

function parse(block: string): ServerEvent | null {
  let name = 'message';
  const data: string[] = [];
  for (const line of block.split('\n')) {
    if (line.startsWith('event: ')) name = line.slice(7);
    else if (line.startsWith('data: ')) data.push(line.slice(6));
  }
  return data.length === 0 ? null : { name, data: data.join('\n') };
}
