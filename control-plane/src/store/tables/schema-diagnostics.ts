// Which custom variables changed with which revision of an environment. Never what they were.
export interface VariableChangesTable {
  environmentId: number
  revision: number
  key: string
}
