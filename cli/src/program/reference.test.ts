import { expect, it } from 'vitest'
import { COMMANDS } from './program.ts'
import { referencePage } from './reference.ts'

it('docs/reference/client.md is what the command table says', async () => {
  await expect(referencePage()).toMatchFileSnapshot('../../../docs/reference/client.md')
})

it('every command and every example is on the page', () => {
  const page = referencePage()
  for (const spec of COMMANDS) {
    for (const example of spec.examples) expect(page).toContain(example)
    for (const flag of spec.flags ?? []) expect(page).toContain(flag.flags)
  }
})
