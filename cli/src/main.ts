#!/usr/bin/env node
// The client `berth`.
import { run } from './invoke.ts'
import { processIo } from './io.ts'

const io = processIo()
const code = await run(process.argv.slice(2), io)
// what was written must be out before the end; idle connections must not delay it
await Promise.all([io.stdout.write(''), io.stderr.write('')])
process.exit(code)
