#!/usr/bin/env node
// The client `berth`.
import './older-node.ts'
import { start } from './start.ts'
import { processIo } from './terminal/io.ts'

async function main(): Promise<void> {
  const io = processIo()
  const code = await start(process.argv.slice(2), io)
  // flush all output before the exit, which idle connections must not delay
  await Promise.all([io.stdout.write(''), io.stderr.write('')])
  process.exit(code)
}

// no top-level await: the bundle is CommonJS, which loads modules of Node.js when they are needed
void main()
