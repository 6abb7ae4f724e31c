// npm run fuzz -- api|service-file|webhooks [--requests N] [--seed N] [--engine sqlite|postgres] [--break planted]
//
// Sends random and damaged input to our own gateways. The last line has the counts; the exit code is 1 if one that must
// be zero is not. --break planted runs a build that is broken on purpose, which the harness must catch. For a further
// target, add a line to TARGETS and a file next to this one.
import { parseArgs } from 'node:util'
import { locate } from '../fixtures/platform/components.ts'
import type { EngineName } from '../fixtures/platform/engines.ts'
import { startPostgres } from '../fixtures/platform/postgres.ts'
import { fuzzApi } from './api.ts'
import { fuzzServiceFile } from './service-file.ts'
import { fuzzWebhooks } from './webhooks.ts'

export interface FuzzOptions {
  requests: number
  seed: number
  engine: EngineName
  planted: boolean
  say: (line: string) => void
}

/** The counts as text, and how many of them should be zero and are not. */
export interface FuzzResult {
  line: string
  violations: number
}

const TARGETS: Record<string, (options: FuzzOptions) => Promise<FuzzResult>> = {
  async api(options) {
    const c = await fuzzApi(options)
    return {
      line:
        `${c.requests} requests (${c.accepted} accepted) to ${c.operations} operations, at least ` +
        `${c.fewest} each: ${c.faults} faults, ${c.outside} outside the document, ` +
        `${c.writesByGet} batches of GET that wrote`,
      violations: c.faults + c.outside + c.writesByGet,
    }
  },
  async 'service-file'(options) {
    const c = fuzzServiceFile({ ...options, inputs: options.requests })
    return {
      line:
        `${c.inputs} files (${c.valid} valid): ${c.crashes} crashes, ${c.slow} over the bound, ` +
        `worst ${c.worstMs} ms of processor time`,
      violations: c.crashes + c.slow,
    }
  },
  async webhooks(options) {
    const c = await fuzzWebhooks(options)
    return {
      line:
        `${c.parsed} payloads (${c.understood} understood): ${c.crashes} crashes; ${c.requests} deliveries: ` +
        `${c.faults} faults, ${c.wrong} wrong answers, ${c.undecided} not decided`,
      violations: c.crashes + c.faults + c.wrong + c.undecided,
    }
  },
}

async function main(): Promise<number> {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: {
      requests: { type: 'string', default: '50000' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
      engine: { type: 'string', default: 'sqlite' },
      break: { type: 'string' },
    },
  })
  const [name = ''] = positionals
  const target = TARGETS[name]
  const engine = values.engine
  const known = engine === 'sqlite' || engine === 'postgres'
  if (!target || !known || (values.break !== undefined && values.break !== 'planted')) {
    console.error(`usage: npm run fuzz -- ${Object.keys(TARGETS).join('|')} [--requests N]`)
    console.error('       [--seed N] [--engine sqlite|postgres] [--break planted]')
    return 2
  }
  console.log(`seed ${values.seed}`)
  const program = locate('postgres')
  const postgres = engine === 'postgres' && program ? await startPostgres(program) : undefined
  if (postgres) process.env.BERTH_TEST_POSTGRES = postgres.folder
  try {
    const { line, violations } = await target({
      requests: Number(values.requests),
      seed: Number(values.seed),
      engine,
      planted: values.break !== undefined,
      say: (text) => console.log(text),
    })
    console.log(`${name}: ${line}: ${violations === 0 ? 'ok' : 'VIOLATED'}`)
    return violations === 0 ? 0 : 1
  } finally {
    await postgres?.stop()
  }
}

process.exit(await main())
