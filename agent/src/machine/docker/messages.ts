// Parses streams of the engine with one JSON object per line (build, pull, events): handles UTF-8 across chunk
// boundaries, and bounds each message. Throws when the stream breaks off.
import type { Readable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { ENGINE } from '../../limits/docker.ts'
import { EngineError } from './engine-error.ts'

export async function* readMessages<T>(stream: Readable): AsyncGenerator<T> {
  const decoder = new StringDecoder('utf8')
  let rest = ''
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    const lines = (rest + decoder.write(chunk)).split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > ENGINE.messageBytes) throw new EngineError('refused', 'a message without end')
    for (const line of lines) {
      if (line.trim()) yield parse<T>(line)
    }
  }
  if (rest.trim()) yield parse<T>(rest)
}

function parse<T>(line: string): T {
  try {
    return JSON.parse(line) as T
  } catch {
    throw new EngineError('refused', `a message that is not JSON: ${line.slice(0, 100)}`)
  }
}
