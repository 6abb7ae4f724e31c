// The tests of `npm test`. In continuous integration (CI=true) few files with a failure are run once more, each from its
// beginning and beside nothing else: a test that shares its lab with others cannot be repeated alone. Both verdicts stay
// in the output; what fails twice fails, and so does whatever no file can be blamed for.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'

const REPORTERS = ['--reporter=default', '--reporter=json']

/** More than a few is no accident. */
const AGAIN_AT_MOST = 4

interface Report {
  testResults: { name: string; status: string }[]
}

/** Files and options of the command line. */
const wishes = process.argv.slice(2)

const vitest = (...args: string[]): number =>
  spawnSync('vitest', ['run', ...args], { stdio: 'inherit' }).status ?? 1

function readFailed(file: string): string[] {
  try {
    const { testResults } = JSON.parse(readFileSync(file, 'utf8')) as Report
    const failed = testResults.filter(({ status }) => status === 'failed')
    return failed.map(({ name }) => relative(process.cwd(), name))
  } catch {
    return [] // it did not come to an end
  }
}

function runTwice(): number {
  const folder = mkdtempSync(join(tmpdir(), 'berth-run-'))
  try {
    const file = join(folder, 'report.json')
    const code = vitest(...wishes, ...REPORTERS, `--outputFile.json=${file}`)
    const failed = code === 0 ? [] : readFailed(file)
    if (failed.length === 0 || failed.length > AGAIN_AT_MOST) return code
    console.log(`\nOnce more, from the beginning: ${failed.join(', ')}`)
    const again = vitest('--no-file-parallelism', ...failed)
    console.log(again === 0 ? `Failed once, then passed: ${failed.join(', ')}` : 'Failed twice.')
    return again
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

process.exitCode = process.env.CI === 'true' ? runTwice() : vitest(...wishes)
