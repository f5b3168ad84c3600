-- Relay and Relax in Neovim: the language server, its commands, the tree-sitter parser.
-- Works from Neovim 0.7 on, without other plugins.

local M = {}

local defaults = {
  cmd = { 'relax-lsp' },
  settings = { inlayHints = { enable = true }, codeLens = { enable = true }, strictShapes = false },
  on_attach = nil,
}

local options = defaults
local client_id

--- Shows a text in a split of its own.
local function show(text, filetype, name)
  vim.cmd('vnew')
  local buffer = vim.api.nvim_get_current_buf()
  vim.bo[buffer].buftype = 'nofile'
  vim.bo[buffer].bufhidden = 'wipe'
  vim.bo[buffer].swapfile = false
  vim.bo[buffer].filetype = filetype
  pcall(vim.api.nvim_buf_set_name, buffer, name)
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, vim.split(text, '\n'))
  return buffer
end

--- Asks the server to do something; `done` gets the answer.
local function ask(command, arguments, done)
  local params = { command = command, arguments = arguments }
  vim.lsp.buf_request(0, 'workspace/executeCommand', params, function(err, result)
    if err then
      vim.notify('relax: ' .. err.message, vim.log.levels.ERROR)
    else
      done(result)
    end
  end)
end

--- Shows the module after a pass beside the module, as a diff.
function M.after(pass)
  local window = vim.api.nvim_get_current_win()
  local uri = vim.uri_from_bufnr(0)
  ask('relax.showAfter', { uri, vim.NIL, pass }, function(result)
    vim.api.nvim_set_current_win(window)
    vim.cmd('diffthis')
    show(result.text, 'relay', 'relax:after/' .. pass)
    vim.cmd('diffthis')
  end)
end

--- Asks for a pass, then shows the module after it.
function M.pick_after()
  ask('relax.passes', {}, function(passes)
    vim.ui.select(passes, { prompt = 'Show the module after' }, function(pass)
      if pass then
        M.after(pass)
      end
    end)
  end)
end

--- Runs a function on random arguments.
function M.run(entry)
  local name = entry or vim.NIL
  ask('relax.run', { vim.uri_from_bufnr(0), name }, function(result)
    show(result.text, 'text', 'relax:run')
  end)
end

--- Explains a diagnostic code, that of the line unless one is given.
function M.explain(code)
  if not code or code == '' then
    local line = vim.api.nvim_win_get_cursor(0)[1] - 1
    local here = vim.diagnostic.get(0, { lnum = line })[1]
    code = here and (here.code or (here.user_data and here.user_data.lsp and here.user_data.lsp.code))
  end
  if code then
    ask('relax.explain', { code }, function(result)
      show(result.text, 'markdown', 'relax:explain/' .. code)
    end)
  end
end

--- Starts the server for a buffer, or joins the one that runs.
function M.attach(buffer)
  local config = {
    name = 'relax',
    cmd = options.cmd,
    root_dir = vim.fn.getcwd(),
    init_options = vim.tbl_extend('force', options.settings, { virtualDocuments = true }),
    settings = { relax = options.settings },
    on_attach = options.on_attach,
  }
  if vim.lsp.start then
    client_id = vim.lsp.start(config, { bufnr = buffer })
  else
    client_id = client_id or vim.lsp.start_client(config)
    if client_id then
      vim.lsp.buf_attach_client(buffer, client_id)
    end
  end
  local hints = vim.lsp.inlay_hint
  if hints and type(hints) == 'table' and hints.enable and options.settings.inlayHints.enable then
    pcall(hints.enable, true, { bufnr = buffer })
  end
  if vim.lsp.commands then
    vim.lsp.commands['relax.showAfter'] = M.pick_after
    vim.lsp.commands['relax.run'] = function(command)
      local entry = command.arguments[2]
      M.run(entry ~= vim.NIL and entry or nil)
    end
    vim.lsp.commands['relax.explain'] = function(command)
      M.explain(command.arguments[1])
    end
  end
end

--- Sets everything up; `opts` may have `cmd`, `settings` and `on_attach`.
function M.setup(opts)
  options = vim.tbl_deep_extend('force', defaults, opts or {})
  local group = vim.api.nvim_create_augroup('relay', { clear = true })
  vim.api.nvim_create_autocmd('FileType', {
    group = group,
    pattern = { 'relay', 'tvmscript' },
    callback = function(event)
      if vim.bo[event.buf].buftype ~= '' then
        return
      end
      if event.match == 'tvmscript' then
        -- Python's own colours, and the server's messages.
        vim.bo[event.buf].syntax = 'python'
        M.attach(event.buf)
        return
      end
      vim.bo[event.buf].commentstring = '// %s'
      vim.bo[event.buf].shiftwidth = 2
      vim.bo[event.buf].expandtab = true
      M.attach(event.buf)
      -- The parser is there when it was built (see the page).
      if vim.treesitter.start then
        pcall(vim.treesitter.start, event.buf, 'relay')
      end
    end,
  })
  -- What the server makes itself: the prelude, pages of operators, explanations.
  vim.api.nvim_create_autocmd('BufReadCmd', {
    group = group,
    -- Without `//` such a name looks like a path to Neovim.
    pattern = { 'relax:*', '*/relax:*' },
    callback = function(event)
      local uri = event.file:match('relax:.*$')
      local client = client_id and vim.lsp.get_client_by_id(client_id)
      local text = ''
      if client then
        local new = vim.fn.has('nvim-0.11') == 1
        local request = new and function(...) return client:request_sync(...) end or client.request_sync
        local answer = request('workspace/textDocumentContent', { uri = uri }, 10000, event.buf)
        text = answer and answer.result and answer.result.text or ''
      end
      vim.api.nvim_buf_set_lines(event.buf, 0, -1, false, vim.split(text, '\n'))
      vim.bo[event.buf].buftype = 'nofile'
      vim.bo[event.buf].modifiable = false
      vim.bo[event.buf].filetype = uri:match('%.md$') and 'markdown' or 'relay'
    end,
  })
  local command = vim.api.nvim_create_user_command
  command('RelayAfter', function(a)
    if a.args == '' then
      M.pick_after()
    else
      M.after(a.args)
    end
  end, { nargs = '?' })
  command('RelayRun', function(a)
    M.run(a.args ~= '' and a.args or nil)
  end, { nargs = '?' })
  command('RelayExplain', function(a)
    M.explain(a.args)
  end, { nargs = '?' })
end

return M
