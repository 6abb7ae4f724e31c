// After a run, every sentence of the specification must have been proven by it: the tests named in spec-coverage.ts ran and
// passed. A test that was removed, renamed or skipped proves nothing. Files that were not part of the run are not judged.
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Reporter, TestCase, TestModule, TestSuite } from 'vitest/node'
import { PROMISES } from './spec-coverage.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Names of a test and of everything around it. */
function namesOf(test: TestCase): string[] {
  const names = [test.name]
  for (let at: TestSuite | TestModule = test.parent; at.type === 'suite'; at = at.parent) {
    names.push(at.name)
  }
  return names
}

/** A title as it is written; what `test.each` puts in may be anything. */
const patternOf = (title: string): RegExp =>
  new RegExp(
    `^${title
      .split(/%[sdjio]|\$\w+(?:\.\w+)*/)
      .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'))
      .join('.*')}`,
    's',
  )

export default class SpecCoverageReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const byFile = new Map(modules.map((m) => [relative(root, m.moduleId), m]))
    const unproven = PROMISES.flatMap(({ sentence, proofs }) =>
      proofs.flatMap(([file, title]) => {
        const module = byFile.get(file)
        if (!module) return []
        const pattern = patternOf(title)
        const tests = [...module.children.allTests()].filter((test) =>
          namesOf(test).some((name) => pattern.test(name)),
        )
        const states = tests.map((test) => test.result().state)
        if (states.length > 0 && states.every((state) => state === 'passed')) return []
        const why = states.length === 0 ? 'is not there' : `has ${[...new Set(states)].join(', ')}`
        return [`  ${sentence}\n    ${file}: "${title}" ${why}`]
      }),
    )
    if (unproven.length === 0) return
    console.error(
      `\nSentences of the specification that this run did not prove:\n${unproven.join('\n')}`,
    )
    process.exitCode = 1
  }
}
