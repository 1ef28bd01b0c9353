// Shows /openapi.json as a page in which every operation can be tried. No framework, nothing from elsewhere.

/** Makes an element. Text is never parsed as markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A value of the right shape, to begin from. */
function example(schema, depth = 0) {
  if (schema === undefined || depth > 6) return null;
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  if (schema.enum !== undefined) return schema.enum[0];
  const choice = (schema.anyOf ?? schema.oneOf)?.[0];
  if (choice !== undefined) return example(choice, depth + 1);
  switch (schema.type) {
    case 'object': {
      const required = new Set(schema.required ?? []);
      const entries = Object.entries(schema.properties ?? {})
        .filter(([name]) => required.has(name))
        .map(([name, part]) => [name, example(part, depth + 1)]);
      return Object.fromEntries(entries);
    }
    case 'array':
      return [];
    case 'integer':
    case 'number':
      return schema.minimum ?? 0;
    case 'boolean':
      return false;
    case 'string':
      return 'text';
    default:
      return null;
  }
}

function parameterRows(operation, inputs) {
  return (operation.parameters ?? []).map((parameter) => {
    const { name, in: place, required, schema = {} } = parameter;
    const input = make('input', { 'aria-label': name });
    if (schema.default !== undefined) input.placeholder = String(schema.default);
    inputs.push({ name, place, input });
    const about = [schema.description, schema.enum?.join(' | ')].filter(Boolean).join(' ');
    const label = make('code', {}, required ? `${name} *` : name);
    const cells = [make('td', {}, label), make('td', {}, place), make('td', {}, input)];
    return make('tr', {}, ...cells, make('td', {}, about));
  });
}

function schemaBlock(title, schema) {
  const text = JSON.stringify(schema, null, 2);
  return make('details', {}, make('summary', {}, title), make('pre', {}, text));
}

async function send(method, path, inputs, body, extraHeaders) {
  let target = path;
  const query = new URLSearchParams();
  const headers = new Headers();
  for (const { name, place, input } of inputs) {
    const { value } = input;
    if (place === 'path') target = target.replace(`{${name}}`, encodeURIComponent(value));
    else if (value !== '' && place === 'query') query.set(name, value);
    else if (value !== '' && place === 'header') headers.set(name, value);
  }
  for (const line of extraHeaders.split('\n')) {
    const at = line.indexOf(':');
    if (at > 0) headers.set(line.slice(0, at).trim(), line.slice(at + 1).trim());
  }
  const credential = document.getElementById('credential');
  const { key, secret } = credential.elements;
  if (key.value !== '') headers.set('x-api-key', key.value);
  if (secret.value !== '') headers.set('x-api-secret', secret.value);
  if (body !== null) headers.set('content-type', 'application/json');
  const search = query.size === 0 ? '' : `?${query}`;
  const response = await fetch(target + search, {
    method,
    headers,
    ...(body === null ? {} : { body }),
  });
  const shown = [...response.headers].map(([name, value]) => `${name}: ${value}`).join('\n');
  return `${response.status} ${response.statusText}\n${shown}\n\n${await response.text()}`;
}

function tryIt(method, path, operation, inputs) {
  const schema = operation.requestBody?.content?.['application/json']?.schema;
  const body = schema === undefined ? null : make('textarea', { 'aria-label': 'Body' });
  if (body !== null) body.value = JSON.stringify(example(schema), null, 2);
  const headers = make('textarea', {
    'aria-label': 'Headers',
    placeholder: 'Idempotency-Key: order-1',
    style: 'min-height: 3rem',
  });
  const button = make('button', { type: 'button' }, 'Send');
  const output = make('pre', { 'aria-live': 'polite' });
  output.hidden = true;
  button.addEventListener('click', async () => {
    output.hidden = false;
    output.textContent = 'Sending …';
    try {
      output.textContent = await send(method, path, inputs, body?.value ?? null, headers.value);
    } catch (error) {
      output.textContent = `No answer: ${error.message}`;
    }
  });
  const parts = [make('h4', {}, 'Try it'), 'Headers', headers];
  if (body !== null) parts.push('Body', body);
  return [...parts, button, output];
}

function operationBlock(method, path, operation, anchor) {
  const inputs = [];
  const rows = parameterRows(operation, inputs);
  const inside = make('div', { class: 'inside' });
  if (operation.description) inside.append(make('p', {}, operation.description));
  if (rows.length > 0) inside.append(make('table', {}, make('tbody', {}, ...rows)));
  const body = operation.requestBody?.content?.['application/json']?.schema;
  if (body !== undefined) inside.append(schemaBlock('Body', body));
  for (const [status, answer] of Object.entries(operation.responses ?? {})) {
    const schema = Object.values(answer.content ?? {})[0]?.schema;
    if (schema !== undefined) inside.append(schemaBlock(`Answer ${status}`, schema));
  }
  inside.append(...tryIt(method.toUpperCase(), path, operation, inputs));
  const title = make(
    'summary',
    {},
    make('span', { class: 'method' }, method.toUpperCase()),
    make('code', {}, path),
    ' ',
    make('small', {}, operation.summary ?? ''),
  );
  return make('article', { id: anchor }, make('details', {}, title, inside));
}

function show(document_) {
  const { info, tags = [], paths } = document_;
  document.getElementById('version').textContent = info.version;
  document.getElementById('description').textContent = info.description;
  const byTag = new Map(tags.map((tag) => [tag.name, { ...tag, operations: [] }]));
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const name = operation.tags?.[0] ?? 'other';
      if (!byTag.has(name)) byTag.set(name, { name, operations: [] });
      byTag.get(name).operations.push({ path, method, operation });
    }
  }
  const contents = make('ul');
  for (const { name, description = '', operations } of byTag.values()) {
    if (operations.length === 0) continue;
    const section = make('section', {}, make('h2', {}, name), make('p', {}, description));
    for (const { path, method, operation } of operations) {
      const anchor = `${method}${path.replace(/[^\w]+/g, '-')}`;
      section.append(operationBlock(method, path, operation, anchor));
      const link = make('a', { href: `#${anchor}` }, `${method.toUpperCase()} ${path}`);
      contents.append(make('li', {}, link));
    }
    document.getElementById('operations').append(section);
  }
  document.getElementById('contents').append(contents);
}

try {
  const response = await fetch('../openapi.json');
  show(await response.json());
} catch (error) {
  document.getElementById('description').textContent = `It cannot be shown: ${error.message}`;
}
