-- Driven by neovim.rs: opens a file, asks the server, writes down what it said.

local result = {}

local function text()
  return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n')
end

local function write()
  local out = io.open(vim.env.RELAX_RESULT, 'w')
  out:write(vim.json and vim.json.encode(result) or vim.fn.json_encode(result))
  out:close()
end

local function ask(method, params)
  local answers, err = vim.lsp.buf_request_sync(0, method, params, 20000)
  assert(answers, err)
  for _, answer in pairs(answers) do
    assert(not answer.error, answer.error and answer.error.message)
    return answer.result
  end
end

local function apply(edits)
  vim.lsp.util.apply_text_edits(edits, vim.api.nvim_get_current_buf(), 'utf-16')
end

local ok, err = pcall(function()
  vim.cmd('filetype on')
  require('relay').setup({ cmd = { vim.env.RELAX_LSP } })
  vim.cmd('edit ' .. vim.env.RELAX_FILE)
  result.filetype = vim.bo.filetype

  vim.wait(20000, function()
    return #vim.diagnostic.get(0) > 0
  end, 20)
  result.diagnostics = {}
  for _, d in ipairs(vim.diagnostic.get(0)) do
    table.insert(result.diagnostics, d.message)
  end

  -- Mended in the buffer: the change reaches the server, the diagnostic goes.
  vim.api.nvim_buf_set_lines(0, 2, 3, false, { '      nn.relu(%y)' })
  vim.wait(20000, function()
    return #vim.diagnostic.get(0) == 0
  end, 20)
  result.mended = #vim.diagnostic.get(0)

  local document = vim.lsp.util.make_text_document_params()
  local at = { textDocument = document, position = { line = 1, character = 7 } }
  result.hover = ask('textDocument/hover', at).contents.value

  at.newName = 'twice'
  local edit = ask('textDocument/rename', at)
  vim.lsp.util.apply_workspace_edit(edit, 'utf-16')
  result.renamed = text()

  -- The definition of an operator is a text that the server makes.
  local place = ask('textDocument/definition', { textDocument = document, position = { line = 1, character = 16 } })
  result.definition = place[1] and place[1].uri
  vim.cmd('split')
  vim.lsp.util.jump_to_location(place[1], 'utf-16')
  result.page = text()
  vim.cmd('close')

  local params = { textDocument = document, options = { tabSize = 2, insertSpaces = true } }
  apply(ask('textDocument/formatting', params))
  result.formatted = text()
end)
if not ok then
  result.error = tostring(err)
end
write()
vim.cmd('qa!')
