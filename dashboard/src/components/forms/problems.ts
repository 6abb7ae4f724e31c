// Which message of a refusal belongs to which field of a form. Each message appears once: at its field, under the name
// that the form gives it, or at the top if the form has no such field. PURE.
import type { Problem } from '../../api.ts'
import { capital } from '../../format.ts'

/** A field on the page, in the order of the form. */
export interface FormField {
  id: string
  name: string
  label: string
  /** Other fields of the API whose messages belong to it. */
  also?: readonly string[]
}

export interface Placed {
  /** By the id of the field. */
  atFields: ReadonlyMap<string, string>
  /** At the top of the form. */
  atTop: readonly string[]
}

/** `server_ids.0` and `with.token` belong to the fields `server_ids` and `token`. */
const isFor = (field: string, name: string): boolean =>
  field === name || field.startsWith(`${name}.`) || field.endsWith(`.${name}`)

/** `pull_request_bases` becomes "Pull request bases", for a field that has no label here. */
const words = (field: string): string =>
  capital(
    field
      .replace(/\.\d+$/, '')
      .replaceAll(/[._]/g, ' ')
      .replace(/\b(url|ssh|id)s?\b/g, (word) =>
        word.startsWith('id') ? word : word.toUpperCase(),
      ),
  )

/** Messages of the schema begin with the API's name of the field; sentences of the server do not. */
function say(problem: Problem['fields'][number], label: string | undefined): string {
  const { field, message } = problem
  const prefix = `${field}: `
  const isSchema = field !== '' && message.startsWith(prefix)
  if (isSchema) {
    const said = message.slice(prefix.length)
    return label === undefined ? `${words(field)} ${said}` : capital(said)
  }
  if (!field.includes('_')) return message
  return message.replaceAll(
    new RegExp(`\\b${field.replaceAll('.', '\\.')}\\b`, 'g'),
    label ?? words(field),
  )
}

/** Refusals that are about one field, although the server does not name it. */
const ABOUT: Readonly<Record<string, readonly string[]>> = {
  identifier_taken: ['identifier'],
  name_taken: ['name'],
  slug_taken: ['slug'],
  domain_in_use: ['domain', 'custom_domains'],
  already_member: ['email'],
  already_invited: ['email'],
  account_exists: ['email'],
  setup_token_invalid: ['token'],
  sign_in_failed: ['current_password'],
}

/** The whole refusal at its field, if the form has exactly one that it can be about. */
function placeWhole({ code, message }: Problem, fields: readonly FormField[]): Placed {
  const names = ABOUT[code ?? ''] ?? []
  const [owner, ...others] = fields.filter(({ name }) => names.includes(name))
  return owner && others.length === 0
    ? { atFields: new Map([[owner.id, message]]), atTop: [] }
    : { atFields: new Map(), atTop: [message] }
}

export function placeProblems(problem: Problem, fields: readonly FormField[]): Placed {
  if (problem.fields.length === 0) return placeWhole(problem, fields)
  const atFields = new Map<string, string>()
  const atTop: string[] = []
  for (const one of problem.fields) {
    const owner =
      fields.find(({ name }) => name === one.field) ??
      fields.find(({ name, also = [] }) => [name, ...also].some((own) => isFor(one.field, own)))
    const said = say(one, owner?.label)
    if (!owner) {
      if (!atTop.includes(said)) atTop.push(said)
      continue
    }
    const before = atFields.get(owner.id)
    if (before === undefined) atFields.set(owner.id, said)
    else if (!before.includes(said)) {
      atFields.set(owner.id, `${before} ${said}`)
    }
  }
  return { atFields, atTop }
}
