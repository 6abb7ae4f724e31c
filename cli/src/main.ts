#!/usr/bin/env node
// The client `berth`.
import './older-node.ts'
import { start } from './start.ts'
import { processIo } from './terminal/io.ts'

async function main(): Promise<void> {
  const io = processIo()
  const code = await start(process.argv.slice(2), io)
  // what was written must be out before the end; idle connections must not delay it
  await Promise.all([io.stdout.write(''), io.stderr.write('')])
  process.exit(code)
}

// no await up here: the bundle is CommonJS, in which modules of Node.js are loaded when they are needed
void main()
