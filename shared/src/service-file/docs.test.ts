// Checks docs/reference/service-file.md against the code: every key and every code is in it, and every example is valid.
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { ERROR_CODES, jsonSchema, readServiceFile, WARNING_CODES } from './index.ts'
import { serviceFileSchema } from './schema.ts'

const page = readFileSync(
  new URL('../../../docs/reference/service-file.md', import.meta.url),
  'utf8',
)

function keysIn(schema: z.ZodType): string[] {
  if (schema instanceof z.ZodOptional) return keysIn(schema.unwrap() as z.ZodType)
  if (schema instanceof z.ZodUnion) return (schema.options as z.ZodType[]).flatMap(keysIn)
  if (schema instanceof z.ZodArray) return keysIn(schema.element as z.ZodType)
  if (schema instanceof z.ZodRecord) return keysIn(schema.valueType as z.ZodType)
  if (!(schema instanceof z.ZodObject)) return []
  const shape = schema.shape as Record<string, z.ZodType>
  return Object.entries(shape).flatMap(([key, value]) => [key, ...keysIn(value)])
}

describe('the page for users', () => {
  it.each([...new Set(keysIn(serviceFileSchema))])('has a row for %s', (key) => {
    expect(page).toMatch(new RegExp(`^\\| (\`[a-z_]+\`, )*\`${key}\``, 'm'))
  })

  it.each([...ERROR_CODES, ...WARNING_CODES])('explains %s', (code) => {
    expect(page).toMatch(new RegExp(`^\\| (\`[a-z_]+\`, )*\`${code}\``, 'm'))
  })

  const blocks = [...page.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, source = '']) => source)
  const whole = blocks.filter((source) => /^(docker|manual|actions):/m.test(source))

  it('has examples', () => expect(whole).toHaveLength(15))

  it.each(whole)('has a valid example: %s', (source) => {
    const complete = /^(docker|manual):/m.test(source) ? source : `${source}manual: { deploy: [x] }`
    expect(readServiceFile(complete).problems).toEqual([])
  })

  it('shows the message that is given', () => {
    const source =
      'docker:\n  services:\n    web:\n      build: .\n      port: "three thousand"\n      domian: a'
    for (const { message } of readServiceFile(source).problems) expect(page).toContain(message)
  })

  it('names the address of the schema', () => {
    expect(page).toContain('/schemas/service.v1.json')
    expect(jsonSchema().$schema).toContain('draft-07')
  })
})
